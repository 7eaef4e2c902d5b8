package actors

import (
	"testing"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// BenchmarkRecordCall measures what the facts cost one call: the counters of its tool and
// the ring of recent calls.
func BenchmarkRecordCall(b *testing.B) {
	rt := new(Runtime)
	v := &View{Name: "s", Gen: 1, stats: newRegistrationStats()}
	rt.RecordCall(v, &mcpvisor.CallRecord{Method: "tools/call", Target: "echo"}, true)
	began := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			record := mcpvisor.CallRecord{Method: "tools/call", Target: "echo", Began: began, Took: 50 * time.Microsecond, ResultBytes: 50}
			rt.RecordCall(v, &record, true)
		}
	})
}
