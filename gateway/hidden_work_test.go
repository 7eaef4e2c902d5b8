package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// hidings are the profiles that hide the tool job of the server s.
var hidings = map[string]Profile{"tool": {Tools: Filter{Deny: []string{"job"}}}, "server": {Servers: Filter{Deny: []string{"s"}}}}

// A task of a tool that a reload has hidden does not exist for its client: as soon as it is hidden, under any method, and
// without a word of its notifications. When the tool is offered again, so is the task.
func TestProfile_reload_hides_tasks(t *testing.T) {
	for name, hides := range hidings {
		t.Run(name, func(t *testing.T) {
			v := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
			overTasks(t, mcptest.TaskDef{Takes: time.Hour}, func(t *testing.T, _ *facade.Client, url string, modern, _ bool) {
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": {}}}))
				p := follower(t, url, modern)
				id := p.begin("k" + strings.ReplaceAll(t.Name(), "/", "-"))
				p.get(id)
				unknown := p.ask("tasks/get", about("none")).Error
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": hides}}))
				methods := map[string]string{"tasks/get": about(id), "tasks/cancel": about(id)}
				if modern {
					methods["tasks/update"] = `{"taskId":"` + id + `","inputResponses":{"x":{"action":"decline"}}}`
				} else {
					methods["tasks/result"] = about(id)
					require.Equal(t, "[]", member(t, p.ask("tasks/list", `{}`).Result, "tasks"))
				}
				for method, params := range methods {
					require.Equal(t, unknown, p.ask(method, params).Error, method)
				}
				require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": {}}}))
				require.NotEqual(t, task.Cancelled, p.get(id).Status, "the server was not asked to cancel it")
			}, WithSettings(v), WithProfile("p"))
		})
	}
}

// The whole text of a shortened result is not read any longer when its tool is hidden.
func TestProfile_reload_hides_results(t *testing.T) {
	for name, hides := range map[string]Profile{"tool": {Tools: Filter{Deny: []string{"x"}}}, "server": {Servers: Filter{Deny: []string{"a"}}}} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: rawServer(`{"content":[{"type":"text","text":"` + strings.Repeat("s", 1000) + `"}]}`)})
			v := newSettings(t, Settings{MaxResultBytes: 100, Profiles: map[string]Profile{"p": {}}})
			s := openRaw(t, Transport(c, WithSettings(v), WithProfile("p")))
			var result struct{ Content []struct{ URI string } }
			require.NoError(t, json.Unmarshal(s.call("tools/call", `{"name":"a/x","arguments":{}}`).Result, &result))
			read := `{"uri":"` + result.Content[1].URI + `"}`
			require.NoError(t, s.call("resources/read", read).Error)
			require.NoError(t, v.Set(Settings{Profiles: map[string]Profile{"p": hides}}))
			require.ErrorContains(t, s.call("resources/read", read).Error, "is kept; call the tool again")
		})
	}
}
