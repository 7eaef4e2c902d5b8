package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// taskServer makes one task, t1, of each call of x, in which it calls inCall. What comes of it names the incarnation, from 1.
func taskServer(inCall ...func()) mcpvisor.ServerSpec {
	const task = `"taskId":"t1","status":"%s","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null`
	var started atomic.Int32
	return mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		n := started.Add(1)
		return serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
			switch m.Method {
			case "initialize":
				return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"raw","version":"1"}}`, nil
			case "tools/list":
				return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`, nil
			case "tools/call":
				for _, f := range inCall {
					f()
				}
				return `"result":{"task":{` + fmt.Sprintf(task, "working") + `}}`, nil
			case "tasks/get":
				return `"result":{` + fmt.Sprintf(task, "completed") + `}`, nil
			case "tasks/result":
				return fmt.Sprintf(`"result":{"content":[{"type":"text","text":"of incarnation %d"}]}`, n), nil
			}
			return "", nil
		}).Serve(ctx, in, out, log)
	}}}
}

// The id of a task of a copy is unknown to the server that all share, whose task of that id is another client's; and
// the other way round.
func TestShare_tasks_of_a_principal_after_a_reload(t *testing.T) {
	c := newClient(t, taskServer())
	var settings SettingsVar
	share := func(s Share) {
		require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": s}}))
	}
	_, url := serveHTTP(t, c, WithSettings(&settings), withNames("alice", "bob"))
	as := func(token, method, params, name string) string {
		p := newPeer(t, url)
		p.header.Set("Authorization", "Bearer "+token)
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		_, text := p.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`, versionHeader, "2026-07-28", methodHeader, method, nameHeader, name)
		return text
	}
	call := func(token string) (id string) {
		id = memberOf(t, []byte(as(token, "tools/call", `"name":"a__x"`, "a__x")), "result", "taskId")
		require.NotEmpty(t, id)
		return id
	}
	get := func(token, id string) string { return as(token, "tasks/get", `"taskId":`+id, strings.Trim(id, `"`)) }

	share(ShareClient)
	require.Contains(t, get("alice", call("alice")), "of incarnation 2")
	ofCopy := call("alice")
	share(ShareAll)
	ofAll := call("bob")
	refused := get("alice", ofCopy)
	require.NotContains(t, refused, "of incarnation")
	require.Contains(t, refused, errTaskGone.Error())
	share(ShareClient)
	require.Contains(t, get("bob", ofAll), errTaskGone.Error())
}

// The tasks of a copy are not open any more when it has ended with its session, and nothing keeps that.
func TestShare_nothing_of_an_ended_session_is_kept(t *testing.T) {
	c := newClient(t, taskServer())
	server, url := serveHTTP(t, c, WithShare(ShareClient))
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"tasks":{}}`)
	_, failure := p.user(false)("tools/call", `{"name":"a__x","task":{}}`)
	require.Empty(t, failure)
	require.Equal(t, 1, server.Status().Clients.Sessions[0].Tasks)
	var freed atomic.Bool
	server.mu.Lock()
	for _, own := range server.sessions {
		runtime.AddCleanup(own.connection, func(struct{}) { freed.Store(true) }, struct{}{})
	}
	server.mu.Unlock()
	p.do(t.Context(), http.MethodDelete, "")
	until(t, func() bool { return server.Status().Clients.Sessions[0].Tasks == 0 })
	until(t, func() bool {
		runtime.GC()
		return freed.Load()
	})
	runtime.KeepAlive(server)
}

// A task belongs to the incarnation that got the call, though the server has copies before it answers.
func TestShare_task_of_a_call_during_a_reload(t *testing.T) {
	var settings SettingsVar
	share := func(s Share) {
		require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": s}}))
	}
	c := newClient(t, taskServer(func() { share(ShareClient) }))
	_, url := serveHTTP(t, c, WithSettings(&settings))
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"tasks":{}}`)
	_, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__x","task":{}}}`)
	id := memberOf(t, []byte(answer), "result", "task", "taskId")
	result := `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":` + id + `}}`
	_, answer = p.post(result)
	require.Contains(t, answer, errTaskGone.Error())
	share(ShareAll)
	_, answer = p.post(result)
	require.Contains(t, answer, "of incarnation 1")
	p.do(t.Context(), http.MethodDelete, "")
}
