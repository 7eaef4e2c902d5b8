package facade_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type panickingSampler struct{}

func (panickingSampler) Sample(zerolog.Level) bool { panic("in the logger") }

// A logger that panics costs its line, and ends neither a server nor the process.
func TestLogger_that_panics(t *testing.T) {
	panicking := zerolog.New(writerFunc(func([]byte) (int, error) { panic("in the logger") }))
	for name, logger := range map[string]zerolog.Logger{
		"writer":  panicking,
		"hook":    zerolog.New(io.Discard).Hook(zerolog.HookFunc(func(*zerolog.Event, zerolog.Level, string) { panic("in the logger") })),
		"sampler": zerolog.New(io.Discard).Sample(panickingSampler{}),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := facade.New(facade.WithLogger(logger))
			require.NoError(t, err)
			require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "mem", InMemory: mcptest.InMemory(mcptest.Script{})}))
			require.NoError(t, c.Restart(t.Context(), "mem"))
			require.NoError(t, c.WaitReady(t.Context(), "mem"))
			_, err = c.CallTool(t.Context(), "mem/echo", map[string]any{"text": "hello"})
			require.NoError(t, err)
			require.NoError(t, c.Close(t.Context()))
		})
	}
}

// The host's logger adds, filters and writes as if the library wrote to it directly.
func TestLogger_of_host(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	base := zerolog.New(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}))
	hooked := zerolog.HookFunc(func(e *zerolog.Event, l zerolog.Level, text string) { e.Str("hook", l.String()+" "+text) })
	c, err := facade.New(facade.WithLogger(base.Level(zerolog.InfoLevel).With().Str("app", "host").Logger().Hook(hooked)))
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "mem", InMemory: mcptest.InMemory(mcptest.Script{})}))
	require.NoError(t, c.Close(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	require.Regexp(t, `\{"level":"info","app":"host","server":"mem","event":"ready","epoch":1,"start":[0-9.]+,"tools":\d+,"hook":"info [^"]*ready[^"]*","message":"[^"]*ready[^"]*"\}\n`, out.String())
	require.NotContains(t, out.String(), `"debug"`)
}

// zerolog's own ErrorHandler panics.
func TestLogger_with_bad_error(t *testing.T) {
	last := zerolog.ErrorHandler
	t.Cleanup(func() { zerolog.ErrorHandler = last })     //nolint:reassign // as hosts do
	zerolog.ErrorHandler = func(err error) { panic(err) } //nolint:reassign // as hosts do
	logger := zerolog.New(writerFunc(func([]byte) (int, error) { return 0, errors.Join(os.ErrClosed) }))
	c, err := facade.New(facade.WithLogger(logger))
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "mem", InMemory: mcptest.InMemory(mcptest.Script{})}))
	require.NoError(t, c.Close(t.Context()))
}
