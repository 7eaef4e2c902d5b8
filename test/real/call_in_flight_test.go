//go:build real

package real

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// startCall makes a long call that reports progress, and returns after the first
// report.
func startCall(t *testing.T, c *facade.Client, tool string, args map[string]any) (ended <-chan error) {
	t.Helper()
	working, result := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), tool, args, facade.WithProgress(func(mcpvisor.Progress) {
			select {
			case working <- struct{}{}:
			default:
			}
		}))
		result <- err
	}()
	select {
	case <-working:
	case err := <-result:
		require.FailNow(t, "the call ended", "%v", err)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the call reports no progress")
	}
	return result
}

// requireCrashed requires that a call in flight failed with its server, and that its
// outcome is unknown.
func requireCrashed(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, mcpvisor.ErrCrashed)
		var failed *mcpvisor.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, mcpvisor.OutcomeUnknown, failed.Outcome)
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the call did not end with its server")
	}
}
