package mcptest

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// stuck is a stdout whose writes block until it is released, even if it is closed.
type stuck struct{ release chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.release
	return len(p), nil
}

func (s stuck) Close() error { return nil }

func TestInMemory_returns_after_its_goroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := stuck{make(chan struct{})}
		stdin, w := io.Pipe()
		ended := make(chan error, 1)
		server := InMemory(Script{Versions: []string{version20260728}})
		go func() { ended <- server.Serve(t.Context(), stdin, out, nil) }()
		_, err := io.WriteString(w, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+
			modernParams(`,"name":"sleep","arguments":{"ms":1}`)+"}\n")
		require.NoError(t, err)
		_, err = io.WriteString(w, "\n")
		require.NoError(t, err)
		time.Sleep(2 * time.Millisecond) // waits until the call is blocked in its answer
		require.NoError(t, w.Close())
		synctest.Wait()
		require.Empty(t, ended, "a goroutine of the server is still writing")
		close(out.release)
		require.NoError(t, <-ended)
	})
}

func TestInMemory_returns_the_cause_of_its_context(t *testing.T) {
	withSession(t, Script{}, func(c *rawClient) {
		c.call(1, "hang", `{}`)
		c.cancel(io.ErrNoProgress)
		require.ErrorIs(t, c.requireExit(), io.ErrNoProgress)
	})
}
