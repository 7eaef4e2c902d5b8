package gatewaytest

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Ledger is what callers were told about their calls.
type Ledger struct {
	t  *testing.T
	mu sync.Mutex // guards the fields below
	// By key of the call.
	succeeded, unknown, refused, lost map[string]bool
}

// NewLedger makes an empty ledger.
func NewLedger(t *testing.T) *Ledger {
	t.Helper()
	return &Ledger{t: t, succeeded: map[string]bool{}, unknown: map[string]bool{}, refused: map[string]bool{}, lost: map[string]bool{}}
}

// Result is the result of a tool as callers see it.
type Result struct {
	IsError bool
	Content []struct{ Text string }
	// Of errors of the gateway.
	StructuredContent struct {
		Code        string
		IsRetryable *bool
	}
}

// Add notes what a caller was told. Every error has to say whether the call may have run.
func (l *Ledger) Add(key string, r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := ""
	if len(r.Content) > 0 {
		text = r.Content[0].Text
	}
	switch {
	case !r.IsError:
		l.succeeded[key] = true
	case (strings.Contains(text, "othing was done") || strings.Contains(text, "Nothing was sent")) && r.StructuredContent.IsRetryable != nil && *r.StructuredContent.IsRetryable:
		l.refused[key] = true
	case strings.Contains(text, "Whether it had an effect is not known; check before you repeat it.") && r.StructuredContent.IsRetryable != nil && !*r.StructuredContent.IsRetryable,
		strings.Contains(text, "It may have been executed"):
		l.unknown[key] = true
	default:
		l.t.Errorf("%s: the error does not name the outcome: %+v", key, r)
	}
}

// AddLost notes a call whose connection broke.
func (l *Ledger) AddLost(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost[key] = true
}

// Check compares what the callers were told with what the server has recorded.
func (l *Ledger) Check(dir string) {
	l.t.Helper()
	executions := mcptest.Executions(dir)
	for key, n := range executions {
		require.Equal(l.t, 1, n, "%s ran more than once", key)
		require.False(l.t, l.refused[key], "%s ran, and the caller was told that nothing was done", key)
		require.True(l.t, l.succeeded[key] || l.unknown[key] || l.lost[key], "%s ran without a call", key)
	}
	for key := range l.succeeded {
		require.Equal(l.t, 1, executions[key], "%s succeeded without running", key)
	}
	require.NotEmpty(l.t, l.succeeded)
	l.t.Logf("%d calls succeeded, %d unknown, %d refused, %d lost with their connection", len(l.succeeded), len(l.unknown), len(l.refused), len(l.lost))
}

// Lost is how many calls were lost with their connection.
func (l *Ledger) Lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lost)
}
