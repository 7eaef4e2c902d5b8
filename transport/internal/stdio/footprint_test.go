//go:build unix && !race

package stdio

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// footprint is what the process holds after a garbage collection.
type footprint struct{ goroutines, bytes int }

func measureFootprint() footprint {
	runtime.GC()
	runtime.GC() // the second empties what the first left in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), int(m.HeapAlloc + m.StackInuse)}
}

// TestSession_footprint: an idle session holds no buffer, and no goroutine that only waits
// for the end of something.
func TestSession_footprint(t *testing.T) {
	const servers = 40
	mostGoroutines, mostBytes := 3, 24<<10 // goroutines of stdout, stderr and the exit
	if runtime.GOOS == "linux" {
		mostGoroutines, mostBytes = 0, 14<<10 // the goroutines of the pollers serve all
	}
	answer := `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
	spec := mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy,
		Stdio: &mcpvisor.Stdio{Command: "sh", Args: []string{"-c", "read line; echo '" + answer + "'; echo ready >&2; while read line; do :; done"}}}
	var sessions []transport.Session
	open := func() {
		d := NewDialer(spec, testOptions())
		s := d.NewSession()
		sessions = append(sessions, s)
		require.NoError(t, s.Open(t.Context()))
	}
	defer func() {
		for _, s := range sessions {
			s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test ends"})
		}
		for _, s := range sessions {
			<-s.Released()
		}
	}()
	open() // what is made once for all sessions
	before := measureFootprint()
	for range servers {
		open()
	}
	var each footprint
	require.Eventually(t, func() bool { // what follows the handshake has ended
		after := measureFootprint()
		each = footprint{(after.goroutines - before.goroutines) / servers, (after.bytes - before.bytes) / servers}
		return each.goroutines <= mostGoroutines && each.bytes <= mostBytes
	}, 20*time.Second, 50*time.Millisecond, "%+v for each session", &each)
	t.Logf("%+v for each session", each)
	for _, s := range sessions {
		require.Nil(t, s.Cause(), "the session lives")
	}
}
