//go:build linux

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// crowd is how many servers start at once.
func crowd() int {
	if testing.Short() {
		return 20
	}
	return 200
}

// Starting hundreds of processes takes the machine a while, and says nothing
// about one server: the clocks are far off, save for the one that is tested.
var unhurried = mcpvisor.Timeouts{Start: 2 * time.Minute, Negotiate: 2 * time.Minute, List: 2 * time.Minute,
	Shutdown: 500 * time.Millisecond}

func TestCloseOfManyServers(t *testing.T) {
	for name, faults := range map[string][]mcptest.Fault{
		"polite":   nil,
		"stubborn": {{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}},
		"families": {{At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c, _ := w.client()
			began := time.Now()
			specs := make([]mcpvisor.ServerSpec, crowd())
			for i := range specs {
				specs[i] = mcpvisor.ServerSpec{Name: fmt.Sprintf("s%03d", i), Timeouts: unhurried,
					Stdio: w.stdio(mcptest.Script{Faults: faults})}
			}
			require.NoError(t, c.Apply(w.within(), specs))
			ready := time.Since(began)
			require.Len(t, c.Servers(), crowd())
			require.Len(t, c.Tools(), crowd()*len(mcptest.DefaultTools()))
			alive := len(processes(w.mark))
			if name == "families" {
				require.Equal(t, 2*crowd(), alive, "each has its grandchild")
			} else {
				require.Equal(t, crowd(), alive)
			}
			began = time.Now()
			w.close(c)
			t.Logf("%d servers ready after %v, closed after %v", crowd(), ready, time.Since(began))
			w.requireNoProcess()
		})
	}
}
