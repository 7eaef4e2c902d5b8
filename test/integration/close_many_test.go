//go:build linux

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// manyServers is the number of servers that start at the same time.
func manyServers() int {
	if *everything && !testing.Short() {
		return 100
	}
	return 10
}

// longTimeouts suits a machine that starts hundreds of processes at the same time. Only
// the shutdown timeout, which the test is about, is short.
var longTimeouts = mcpvisor.Timeouts{Start: 4 * time.Minute, Negotiate: 4 * time.Minute, List: 4 * time.Minute,
	Shutdown: 500 * time.Millisecond}

func TestClose_many_servers(t *testing.T) {
	for name, faults := range map[string][]mcptest.Fault{
		"polite":   nil,
		"stubborn": {{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}},
		"families": {{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			c, _ := w.client()
			began := time.Now()
			specs := make([]mcpvisor.ServerSpec, manyServers())
			for i := range specs {
				specs[i] = mcpvisor.ServerSpec{Name: fmt.Sprintf("s%03d", i), Timeouts: longTimeouts,
					Stdio: w.stdio(mcptest.Script{Faults: faults})}
			}
			starting, cancel := context.WithTimeout(t.Context(), 3*longTimeouts.Start)
			defer cancel()
			require.NoError(t, c.Register(starting, specs...))
			ready := time.Since(began)
			require.Len(t, c.Servers(), manyServers())
			require.Len(t, c.Tools(), manyServers()*len(mcptest.DefaultTools()))
			alive := len(processes(w.mark))
			if name == "families" {
				require.Equal(t, 2*manyServers(), alive, "each server has a grandchild")
			} else {
				require.Equal(t, manyServers(), alive)
			}
			began = time.Now()
			w.close(c)
			t.Logf("%d servers ready after %v, closed after %v", manyServers(), ready, time.Since(began))
			w.requireNoProcess()
		})
	}
}
