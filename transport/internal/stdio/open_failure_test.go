package stdio

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// failingOpen returns the cause of a start that fails, of a server that serve is.
func failingOpen(t *testing.T, serve func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser)) *supervisor.Cause {
	t.Helper()
	d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		serve(ctx, stdin, stdout)
		return nil
	}}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
	require.NoError(t, err)
	s := d.NewSession()
	transporttest.ReleaseAtEnd(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var cause *supervisor.Cause
	require.ErrorAs(t, s.Open(ctx), &cause)
	return cause
}

// TestOpenFailure_stray_output: the cause comes first, and there is no advice to wait
// longer, when a server writes something else than messages.
func TestOpenFailure_stray_output(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := failingOpen(t, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser) {
			go func() { _, _ = io.Copy(io.Discard, stdin) }()
			_, _ = io.WriteString(stdout, "Welcome\n")
			<-ctx.Done()
		})
		require.Equal(t, supervisor.CauseTimeout, cause.Kind)
		require.True(t, strings.HasPrefix(cause.Message, `the server wrote to its stdout what is not JSON-RPC: "Welcome"`), cause.Message)
		require.Contains(t, cause.Message, "; server did not finish the handshake in time")
		require.NotContains(t, cause.Message, "raise")
	})
}

// TestOpenFailure_echo: a command that writes back what it reads is not an MCP server.
func TestOpenFailure_echo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := failingOpen(t, func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser) { _, _ = io.Copy(stdout, stdin) })
		require.Equal(t, "the command writes back what it reads; it is not an MCP server", cause.Message)
	})
}

// TestOpenFailure_begins_with_the_decisive_line: what the server says about its failure comes
// before that it ended, and what it wrote to stdout does where stderr says nothing.
func TestOpenFailure_begins_with_the_decisive_line(t *testing.T) {
	for name, c := range map[string]struct{ stdout, stderr, want string }{
		"stderr": {"hello\n", "at main\nError: no key\n    at f (x.js:1:2)\n", `Error: no key; the server wrote to its stdout what is not JSON-RPC: "hello" (`},
		"stdout": {"Please log in first\n", "Server running on stdio\n", `the server wrote to its stdout what is not JSON-RPC: "Please log in first" (`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: func(_ context.Context, _ io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
					_, _ = io.WriteString(stderr, c.stderr)
					_, _ = io.WriteString(stdout, c.stdout)
					return nil
				}}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
				require.NoError(t, err)
				s := d.NewSession()
				transporttest.ReleaseAtEnd(t, s)
				var cause *supervisor.Cause
				require.ErrorAs(t, s.Open(t.Context()), &cause)
				require.True(t, strings.HasPrefix(cause.Message, c.want), cause.Message)
			})
		})
	}
}

// TestOpenFailure_no_line_end: a server that writes messages and ends no line has not written nothing.
func TestOpenFailure_no_line_end(t *testing.T) {
	for end, want := range map[string]bool{"": true, "\r": true, "\n": false} {
		synctest.Test(t, func(t *testing.T) {
			message := `{"jsonrpc":"2.0","id":77,"result":{}}`
			cause := failingOpen(t, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser) {
				go func() { _, _ = io.Copy(io.Discard, stdin) }()
				_, _ = io.WriteString(stdout, message[:9]) // a pause is no fault
				time.Sleep(time.Second)
				_, _ = io.WriteString(stdout, message[9:]+end)
				<-ctx.Done()
			})
			require.Equal(t, supervisor.CauseTimeout, cause.Kind)
			text := fmt.Sprintf(`the server wrote %d bytes without a line end to its stdout: %q`, len(message+end), message)
			require.Equal(t, want, strings.HasPrefix(cause.Message, text), "%q: %s", end, cause.Message)
			require.Equal(t, want, strings.Contains(cause.Message, "without a line end"), cause.Message)
		})
	}
}
