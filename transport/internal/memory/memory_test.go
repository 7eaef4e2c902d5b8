package memory

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// Terminate closes stdin first, and ends the context after half of the grace. It does not wait
// longer than the grace for a server that ignores both.
func TestProcess_Terminate(t *testing.T) {
	const grace = time.Hour
	for name, c := range map[string]struct {
		serve func(ctx context.Context, stdin io.Reader, never <-chan struct{})
		after time.Duration
		left  bool
	}{
		"stdin ends it":   {func(_ context.Context, stdin io.Reader, _ <-chan struct{}) { _, _ = io.Copy(io.Discard, stdin) }, 0, false},
		"context ends it": {func(ctx context.Context, _ io.Reader, _ <-chan struct{}) { <-ctx.Done() }, grace / 2, false},
		"nothing ends it": {func(_ context.Context, _ io.Reader, never <-chan struct{}) { <-never }, grace, true},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			never := make(chan struct{})
			r := Start(&mcpvisor.InMemory{
				Serve: func(ctx context.Context, stdin io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
					c.serve(ctx, stdin, never)
					return nil
				}}, 5, nil)
			require.Equal(t, "server is running", r.ExitCause().Error())
			start := time.Now()
			r.Terminate(grace)
			r.Release()
			require.Equal(t, c.after, time.Since(start))
			select {
			case <-r.Exited():
				require.False(t, c.left)
				require.Equal(t, "server ended", r.ExitCause().Error())
			default:
				require.True(t, c.left)
			}
			close(never)
			<-r.Exited()
		})
	}
}

// A goroutine cannot be killed. The error of Release says that it still runs.
func TestProcess_Release_while_it_runs(t *testing.T) {
	stays := make(chan struct{})
	defer close(stays)
	r := Start(&mcpvisor.InMemory{Serve: func(_ context.Context, _ io.ReadCloser, _ io.WriteCloser, _ io.Writer) error {
		<-stays
		return nil
	}}, 5, nil)
	r.Terminate(0)
	require.ErrorContains(t, r.Release(), "is still running")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
