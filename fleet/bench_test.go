package fleet

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// BenchmarkNode_CallToolRaw calls a server on another node, beside the same server called on its own
// node. Both nodes, the callers and the server share the machine.
func BenchmarkNode_CallToolRaw(b *testing.B) {
	_, from, owner := onB(b, mcptest.Script{})
	args := json.RawMessage(`{"text":"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"}`)
	for _, callers := range []int{1, 64} {
		for _, n := range []*Node{owner, from} {
			b.Run(fmt.Sprintf("%s/callers=%d", map[bool]string{true: "here", false: "there"}[n == owner], callers), func(b *testing.B) {
				b.SetParallelism((callers + 1) / 2)
				if callers == 1 {
					for b.Loop() {
						_, err := n.CallToolRaw(b.Context(), "s/echo", args, facade.WithWaitReady())
						require.NoError(b, err)
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if _, err := n.CallToolRaw(b.Context(), "s/echo", args, facade.WithWaitReady()); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			})
		}
	}
}
