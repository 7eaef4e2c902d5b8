//go:build !race

package gateway

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// The allocations of one call of a session of the go-sdk, in all goroutines of this process
// together, the go-sdk's own included: 52 and 77. The race detector allocates by itself.
func TestCallTool_allocations(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, mcpvisor.ServerSpec{Name: "s", Stdio: mcptest.Stdio(mcptest.Script{}), Era: mcpvisor.EraLegacy})
	inBothEras(t, func(t *testing.T, version string) {
		s := connect(t, Transport(c), version, nil)
		params := &mcp.CallToolParams{Name: "mcp__s__echo", Arguments: map[string]any{"text": "hello"}}
		allocs, bytes := testutil.Allocations(2000, func() {
			r, err := s.CallTool(ctx, params)
			if err != nil || r.IsError {
				require.FailNow(t, "the call failed")
			}
		})
		t.Logf("%.1f allocations, %.0f bytes", allocs, bytes)
		bound := 55.0
		if version == modernVersion {
			bound = 79
		}
		require.LessOrEqual(t, allocs, bound)
	})
}

// TestStream_footprint: the goroutine of an idle stream has a stack of 8 KB. One that needed more once
// is halved by the garbage collector only if a quarter of it would do, so larger frames on the way
// to the wait make it 16 KB. Beside it, net/http has a goroutine that reads.
func TestStream_footprint(t *testing.T) {
	const streams, most = 300, 14 << 10
	_, url := serveHTTP(t, newClient(t))
	address := strings.TrimPrefix(url, "http://")
	p := newPeer(t, url)
	open := func() { // without a goroutine at this end
		p.session = ""
		p.initialize("2025-11-25")
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n%s: %s\r\n\r\n", address, sessionHeader, p.session)
		require.NoError(t, err)
		status, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, status, "200 OK")
	}
	for range 20 { // what is made once, and spans that are not full
		open()
	}
	before := stackBytes()
	for range streams {
		open()
	}
	each := (stackBytes() - before) / streams
	t.Logf("%d bytes of stack for each stream", each)
	require.Less(t, each, most)
}

// stackBytes is what the stacks of the process hold after garbage collections, each of which halves
// the stacks that are too large.
func stackBytes() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse)
}
