package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
)

// bareSession opens and answers at once and remembers nothing: what stays in memory
// after its end belongs to the runtime.
type bareSession struct {
	transport.Base
	calls endCalls
	once  sync.Once
	mu    sync.Mutex
	cause *supervisor.Cause
	dead  chan struct{}
}

type bareDialer struct{}

func (bareDialer) NewSession() transport.Session { return &bareSession{dead: make(chan struct{})} }

func (s *bareSession) Open(context.Context) error { return nil }
func (s *bareSession) Request(_ context.Context, r transport.Request) (json.RawMessage, error) {
	return json.RawMessage(`{"tools":[]}`), nil
}
func (s *bareSession) OnNotice(func(transport.Notice)) {}
func (s *bareSession) Abort(cause *supervisor.Cause) {
	s.once.Do(func() {
		s.mu.Lock()
		s.cause = cause
		s.mu.Unlock()
		close(s.dead)
	})
}
func (s *bareSession) Dead() <-chan struct{}        { return s.dead }
func (s *bareSession) Released() <-chan struct{}    { return s.dead }
func (s *bareSession) OnDead(f func())              { s.calls.onDead(s.dead, f) }
func (s *bareSession) OnReleased(f func())          { s.calls.onReleased(s.dead, f) }
func (s *bareSession) Left() error                  { return nil }
func (s *bareSession) Kill(cause *supervisor.Cause) { s.Abort(cause) }
func (s *bareSession) Cause() *supervisor.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}
func (s *bareSession) LastReceived() time.Time { return time.Now() }
func (s *bareSession) Info() mcpvisor.SessionInfo {
	return mcpvisor.SessionInfo{Era: mcpvisor.EraLegacy, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}}
}

// heap is the number of bytes that are reachable.
func heap() int {
	runtime.GC()
	runtime.GC() // the second empties what the first left in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// What has ended leaves nothing behind. The actor library registers every actor by its
// name, and each incarnation has a name of its own.
func TestFootprint(t *testing.T) {
	const cycles, most = 3000, 16 // bytes for each cycle
	ctx := context.Background()
	start := func(t *testing.T) *Runtime {
		rt := New(Options{Logger: zerolog.Nop(), NewDialer: func(mcpvisor.ServerSpec) (transport.Dialer, error) { return bareDialer{}, nil }})
		t.Cleanup(func() { require.NoError(t, rt.Close(ctx)) })
		return rt
	}
	grows := func(t *testing.T, cycle func(i int)) {
		t.Helper()
		const full = 1000 // cycles after which the events and their summaries have reached their bounds
		for i := range full {
			cycle(i)
		}
		before := heap()
		for i := range cycles {
			cycle(full + i)
		}
		grown := heap() - before
		t.Logf("%d bytes over %d cycles", grown, cycles)
		require.Less(t, grown, most*cycles)
	}

	t.Run("of_a_runtime_without_servers_is_small", func(t *testing.T) {
		before := heap()
		start(t)
		require.Less(t, heap()-before, 256<<10)
	})
	// The first client of a process also makes the prototype of the actor systems.
	t.Run("of_starting_a_runtime_is_small", func(t *testing.T) {
		start := func() {
			rt := New(Options{Logger: zerolog.Nop(), NewDialer: func(mcpvisor.ServerSpec) (transport.Dialer, error) { return bareDialer{}, nil }})
			require.NoError(t, rt.Close(ctx))
		}
		allocs, bytes := testutil.Allocations(20, start)
		t.Logf("%.0f allocations, %.0f bytes", allocs, bytes)
		require.Less(t, allocs, 1000.0)
		require.Less(t, bytes, 100.0*1024)
	})
	t.Run("stays_the_same_over_restarts", func(t *testing.T) {
		rt := start(t)
		require.NoError(t, rt.Register(ctx, mcpvisor.ServerSpec{Name: "fs"}))
		grows(t, func(int) {
			require.NoError(t, rt.Restart(ctx, "fs"))
			_, err := rt.AwaitReady(ctx, "fs")
			require.NoError(t, err)
		})
	})
	t.Run("stays_the_same_over_registrations", func(t *testing.T) {
		rt := start(t)
		grows(t, func(i int) {
			name := fmt.Sprintf("fs%d", i)
			require.NoError(t, rt.Register(ctx, mcpvisor.ServerSpec{Name: name}))
			require.NoError(t, rt.Unregister(ctx, name))
		})
	})
}
