package actors

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// setGroups registers servers and their groups.
func (h *harness) setGroups(groups []mcpvisor.Group, names ...string) {
	h.t.Helper()
	require.NoError(h.t, h.rt.SetGroups(context.Background(), groups))
	var specs []mcpvisor.ServerSpec
	for _, name := range names {
		h.script(name, script{tools: []string{"ls"}})
		specs = append(specs, mcpvisor.ServerSpec{Name: name, StartSupervised: true, Policy: supervisor.Retry(20, time.Second)})
	}
	for _, err := range h.rt.RegisterAll(context.Background(), specs) {
		require.NoError(h.t, err)
	}
	synctest.Wait()
	for _, name := range names {
		require.Equal(h.t, supervisor.StateReady, h.state(name), name)
	}
}

// Groups that crash are started again from what their members report: no server ends for that, and the strategies hold.
func TestGroupPanicKeepsServers(t *testing.T) {
	for what, crash := range map[string]func(h *harness, name string){
		"group": func(h *harness, name string) {
			h.send(h.rt.groupsState.nodes[name].pid, (*groupInput)(nil))
		},
		"all groups": func(h *harness, _ string) { h.send(h.rt.groups.Load(), (*memberReport)(nil)) },
		"manager":    func(h *harness, _ string) { h.crashManager() },
	} {
		runWithHarness(t, what, func(t *testing.T, h *harness) {
			h.setGroups([]mcpvisor.Group{
				{Name: "in", Members: []string{"c", "d"}, Strategy: supervisor.OneForAll},
				{Name: "out", Members: []string{"a", "b", "in"}, Strategy: supervisor.RestForOne},
			}, "a", "b", "c", "d", "e")
			sessions := func() (n []int) {
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					n = append(n, len(h.sessions(name)))
				}
				return n
			}
			want := []int{1, 1, 1, 1, 1}
			for i, name := range []string{"out", "in", "", "in", "out"} {
				crash(h, name)
				time.Sleep(time.Minute)
				require.Equal(t, want, sessions(), "a crash of a group ends nothing")
				h.session("b").Abort(errScripted)
				time.Sleep(time.Minute)
				want[1], want[2], want[3] = want[1]+1, want[2]+1, want[3]+1
				require.Equal(t, want, sessions(), "b and what is behind it")
				h.session("d").Abort(errScripted)
				time.Sleep(time.Minute)
				want[2], want[3] = want[2]+1, want[3]+1
				require.Equal(t, want, sessions(), "the inner group, crash %d", i)
			}
		})
	}
}

// A group that crashes while its members are being restarted, at any moment, completes the restart.
func TestGroupPanicDuringRestart(t *testing.T) {
	for after := range 12 {
		runWithHarness(t, fmt.Sprint(after), func(t *testing.T, h *harness) {
			h.setGroups([]mcpvisor.Group{{Name: "g", Members: []string{"a", "b", "c"}, Strategy: supervisor.OneForAll}}, "a", "b", "c")
			h.session("b").Abort(errScripted)
			time.Sleep(time.Duration(after) * 100 * time.Millisecond)
			h.send(h.rt.groupsState.nodes["g"].pid, (*groupInput)(nil))
			time.Sleep(time.Minute)
			for _, name := range []string{"a", "b", "c"} {
				require.Equal(t, supervisor.StateReady, h.state(name))
				require.Len(t, h.sessions(name), 2, name)
			}
		})
	}
}
