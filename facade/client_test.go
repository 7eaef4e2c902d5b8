package facade_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

func newClient(t *testing.T, opts ...facade.Option) *facade.Client {
	t.Helper()
	c, err := facade.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, c.Close(ctx))
		require.NoError(t, c.Close(ctx))
	})
	return c
}

// registered makes a client with one server.
func registered(t *testing.T, spec mcpvisor.ServerSpec, opts ...facade.Option) *facade.Client {
	t.Helper()
	c := newClient(t, opts...)
	require.NoError(t, c.Register(t.Context(), spec))
	return c
}

// Changes of the original after Register have no effect.
func TestRegister_copies_the_spec(t *testing.T) {
	c := newClient(t)
	var mu sync.Mutex
	seen := map[string]bool{}
	server := overHTTP(t, &raw.Server{Answer: func(m *raw.Message) string {
		mu.Lock()
		defer mu.Unlock()
		seen[m.R.Header.Get("Authorization")] = true
		return ""
	}})
	headers := map[string]string{"Authorization": "Bearer one"}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: server.URL, Headers: headers}}))
	headers["Authorization"] = "Bearer two"
	require.NoError(t, c.Restart(t.Context(), "web"))
	require.NoError(t, c.WaitReady(t.Context(), "web"))
	mu.Lock()
	require.Equal(t, map[string]bool{"Bearer one": true}, seen)
	mu.Unlock()

	program := mcptest.Stdio(mcptest.Script{})
	for i := range 500 {
		program.Env[fmt.Sprint("PAD", i)] = "x"
	}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true, Stdio: program}))
	for i := range 500 { // while it starts, for the race detector
		program.Env[fmt.Sprint("PAD", i)] = "y"
	}
	require.NoError(t, c.WaitReady(t.Context(), "s"))
}

// After Close every operation is ErrClosed, and not ErrUnknownServer.
func TestClose_later_operations_are_ErrClosed(t *testing.T) {
	c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})})
	require.NoError(t, c.Close(t.Context()))
	ctx := t.Context()
	for what, do := range map[string]func() error{
		"call":      func() error { _, err := c.CallTool(ctx, "s/echo", nil); return err },
		"alias":     func() error { _, err := c.CallTool(ctx, "mcp__s__echo", nil); return err },
		"wait":      func() error { _, err := c.CallTool(ctx, "s/echo", nil, facade.WithWaitReady()); return err },
		"raw":       func() error { _, err := c.CallToolRaw(ctx, "s/echo", nil); return err },
		"read":      func() error { _, err := c.ReadResource(ctx, "s", "x:y"); return err },
		"prompt":    func() error { _, err := c.GetPrompt(ctx, "s/p", nil); return err },
		"subscribe": func() error { return c.Subscribe(ctx, "s", "x:y") },
		"level":     func() error { return c.SetLoggingLevel(ctx, "s", "info") },
		"refresh":   func() error { return c.Refresh(ctx, "s") },
		"restart":   func() error { return c.Restart(ctx, "s") },
		"ready":     func() error { return c.WaitReady(ctx, "s") },
	} {
		require.ErrorIs(t, do(), mcpvisor.ErrClosed, what)
	}
	require.NoError(t, c.Fence(ctx, "s", ""))
	require.NoError(t, c.Unregister(ctx, "s"))
	require.Equal(t, "closed", c.CallToolForModel(ctx, "s/echo", nil).StructuredContent.(facade.ModelError).Code)
}

// Close does not wait for a result to be decoded; that ends with its caller.
func TestClose_while_a_result_is_decoded(t *testing.T) {
	result := `{"content":[],"structuredContent":[` + strings.Repeat("0,", 4_000_000) + `0]}`
	c, err := facade.New()
	require.NoError(t, err)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, Limits: mcpvisor.Limits{MaxElements: 5_000_000, MaxDecodedBytes: 1 << 30},
		InMemory: rawAnswer("tools/call", result)}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "s/x", nil)
		done <- err
	}()
	require.Eventually(t, func() bool {
		st, _ := c.ServerStatus("s")
		return st.Calls.InFlight == 0 && st.Calls.Total > 0
	}, 30*time.Second, time.Millisecond, "the answer is here")
	require.NoError(t, c.Close(t.Context()))
	require.Empty(t, done, "decoding takes far longer than Close")
	cancel()
	require.ErrorIs(t, <-done, mcpvisor.ErrCanceled)
}

func TestRegister_many_registers_valid_specs_and_names_the_failed(t *testing.T) {
	c := newClient(t)
	var specs []mcpvisor.ServerSpec
	for i := range 20 {
		specs = append(specs, mcpvisor.ServerSpec{Name: fmt.Sprintf("s%02d", i), InMemory: mcptest.InMemory(mcptest.Script{}), StartSupervised: i%2 == 0})
	}
	specs = append(specs, mcpvisor.ServerSpec{Name: "bad"}, mcpvisor.ServerSpec{Name: "gone", Stdio: &mcpvisor.Stdio{Command: "no-such-command-here"}})
	err := c.Register(t.Context(), specs...)
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorIs(t, err, mcpvisor.ErrStart)
	var failed []string
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var one *mcpvisor.Error
		require.True(t, errors.As(e, &one))
		failed = append(failed, one.Server)
	}
	require.Equal(t, []string{"bad", "gone"}, failed)
	require.Len(t, c.Servers(), 20)
	for _, name := range c.Servers() {
		require.NoError(t, c.WaitReady(t.Context(), name))
	}
	require.NoError(t, c.Register(t.Context()))
}

func TestRegister_many_registers_the_first_of_two_specs_with_one_name(t *testing.T) {
	for range 20 { // it must not depend on who is faster
		c := newClient(t)
		spec := func(server string) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: "twin", InMemory: mcptest.InMemory(mcptest.Script{Name: server})}
		}
		err := c.Register(t.Context(), spec("first"), spec("second"))
		require.ErrorIs(t, err, mcpvisor.ErrExists)
		require.ErrorContains(t, err, "register twin: already registered: specs 1 and 2 of the list have the same name; rename one of them")
		s, ok := c.ServerStatus("twin")
		require.True(t, ok)
		require.Equal(t, "first", s.Session.ServerName)
	}
}

// Every start blocks until release, which is closed once the bound is reached. Without a
// bound more starts would be blocked by then.
func TestRegister_many_bounds_concurrent_starts(t *testing.T) {
	bound := int64(16 * runtime.GOMAXPROCS(0))
	var starting, most atomic.Int64
	release := make(chan struct{})
	serve := mcptest.InMemory(mcptest.Script{}).Serve
	held := &mcpvisor.InMemory{Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		n := starting.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		starting.Add(-1)
		return serve(ctx, stdin, stdout, stderr)
	}}
	specs := make([]mcpvisor.ServerSpec, 3*bound)
	for i := range specs {
		specs[i] = mcpvisor.ServerSpec{Name: fmt.Sprintf("s%03d", i), InMemory: held, Era: mcpvisor.EraLegacy}
	}
	c := newClient(t)
	applied := make(chan error, 1)
	go func() { applied <- c.Register(context.Background(), specs...) }()
	require.Eventually(t, func() bool { return starting.Load() >= bound }, 30*time.Second, time.Millisecond)
	for range 100 { // gives other starts the chance to begin
		runtime.Gosched()
	}
	close(release)
	require.NoError(t, <-applied)
	require.Equal(t, bound, most.Load())
	require.Len(t, c.Servers(), len(specs))
}

func TestRegister_many_ends_with_its_context(t *testing.T) {
	c := newClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	specs := make([]mcpvisor.ServerSpec, 100)
	for i := range specs {
		specs[i] = mcpvisor.ServerSpec{Name: fmt.Sprintf("mute%02d", i), InMemory: mcptest.InMemory(mcptest.Script{
			Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionHangAll}}})}
	}
	applied := make(chan error, 1)
	go func() { applied <- c.Register(ctx, specs...) }()
	require.Eventually(t, func() bool { return len(c.Servers()) > 0 }, 30*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-applied, mcpvisor.ErrCanceled)
	require.Eventually(t, func() bool { return len(c.Servers()) == 0 }, 30*time.Second, time.Millisecond)
}

// A handler of a server in this process that panics ends neither the process nor the server.
func TestServeInMemory_panic_in_a_tool(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "break"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		panic("broken")
	})
	for _, era := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
		c, err := facade.New()
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.Background())) }()
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Era: era, InMemory: facade.ServeInMemory(server)}))
		for range 2 {
			_, err = c.CallTool(t.Context(), "s/break", nil)
			require.ErrorIs(t, err, mcpvisor.ErrRPC)
			require.ErrorContains(t, err, "panic in the server: broken")
		}
		require.Eventually(t, func() bool {
			stderr, _ := c.Stderr("s")
			text := strings.Join(append(stderr.First, stderr.Lines...), "\n")
			return strings.Contains(text, "panic in tools/call") && strings.Contains(text, "client_test.go")
		}, 20*time.Second, time.Millisecond)
	}
}
