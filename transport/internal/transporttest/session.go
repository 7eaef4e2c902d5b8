package transporttest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

const (
	// Patience bounds the wait for a condition that must become true.
	Patience = 10 * time.Second
	// TimeStep is the time between two checks of such a condition.
	TimeStep = 5 * time.Millisecond
)

// ClientInfo is how the client of the tests names itself.
var ClientInfo = &mcp.Implementation{Name: "test-client", Version: "1"}

// ReleaseAtEnd ends a session at the end of a test, and waits until it is released.
func ReleaseAtEnd(t *testing.T, s transport.Session) {
	t.Helper()
	t.Cleanup(func() {
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test is over"})
		RequireClosed(t, s.Released(), "session is not released")
	})
}

// Context returns a context that ends with the test, or after Patience.
func Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// RequireClosed waits until c is closed.
func RequireClosed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(Patience):
		require.FailNow(t, what)
	}
}

// MemoryOptions are the options of sessions with servers in memory.
var MemoryOptions = transport.Options{ClientInfo: &mcp.Implementation{Name: "memory-test", Version: "1"}}

// EndSession ends a session and waits until it is released.
func EndSession(t *testing.T, s transport.Session) {
	t.Helper()
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test is over"})
	<-s.Released()
}

// InBubble runs a test in virtual time.
func InBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// ErrGivenUp is the cause of a session that a test ends.
var ErrGivenUp = &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"}
