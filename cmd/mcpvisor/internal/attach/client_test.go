package attach_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clients returns two clients of the same servers: one in the process, and one over a socket.
func clients(t *testing.T) (c *facade.Client, all map[string]*attach.Client) {
	t.Helper()
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
	script := mcptest.Script{Tools: []mcptest.ToolDef{{Name: "echo"}, {Name: "slow", Text: "x"}, {Name: "slow_progress"}, {Name: "hang"}},
		Faults: []mcptest.Fault{{At: mcptest.StageAnswer, Tool: "slow", Do: mcptest.ActionDelay, Delay: time.Hour}}}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "one", InMemory: mcptest.InMemory(script)}))

	h, err := control.New(c, control.Served{}, control.Info{PID: os.Getpid()})
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "mv") //nolint:usetesting // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	config := filepath.Join(dir, "c.json")
	_, _, err = attach.Find(t.Context(), config)
	require.ErrorIs(t, err, attach.ErrNotRunning)
	path, err := socket.Path(config)
	require.NoError(t, err)
	l, err := socket.Listen(path, "")
	require.NoError(t, err)
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		h.Close()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.NoError(t, l.Close())
	})
	remote, info, err := attach.Find(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(remote.Close)
	require.Equal(t, os.Getpid(), info.PID)
	return c, map[string]*attach.Client{"in process": attach.InProcess(h), "socket": remote}
}

// Progress is passed on before the result, and the timeout of the call counts.
func TestClient_call_options(t *testing.T) {
	_, all := clients(t)
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			var reports []float64
			options := attach.CallOptions{Progress: func(p mcpvisor.Progress) { reports = append(reports, p.Progress) }}
			_, err := c.CallTool(t.Context(), "one/slow_progress", []byte(`{"steps":3,"ms":1}`), options)
			require.NoError(t, err)
			require.Equal(t, []float64{1, 2, 3}, reports)
			_, err = c.CallTool(t.Context(), "one/slow_progress", []byte(`{"steps":1}`), attach.CallOptions{})
			require.NoError(t, err, "without a function for it")

			_, err = c.CallTool(t.Context(), "one/hang", nil, attach.CallOptions{Timeout: 10 * time.Millisecond})
			require.ErrorIs(t, err, mcpvisor.ErrTimeout)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		})
	}
}

// A call that is canceled ends, here and at the client.
func TestClient_canceled(t *testing.T) {
	client, all := clients(t)
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := c.CallTool(ctx, "one/slow", nil, attach.CallOptions{})
				failed <- err
			}()
			require.Eventually(t, func() bool { return len(client.CallsInFlight()) == 1 }, time.Minute, time.Millisecond)
			cancel()
			err := <-failed
			require.ErrorIs(t, err, mcpvisor.ErrCanceled)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			if name == "socket" { // in the process the client knows whether it has sent it
				require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
			}
			require.Eventually(t, func() bool { return len(client.CallsInFlight()) == 0 }, time.Minute, time.Millisecond)
		})
	}
}
