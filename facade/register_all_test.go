package facade_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestRegisterAll_registers_valid_specs_and_names_the_failed(t *testing.T) {
	c := newClient(t)
	var specs []mcpvisor.ServerSpec
	for i := range 20 {
		specs = append(specs, mcpvisor.ServerSpec{Name: fmt.Sprintf("s%02d", i), InMemory: mcptest.InMemory(mcptest.Script{}), StartSupervised: i%2 == 0})
	}
	specs = append(specs, mcpvisor.ServerSpec{Name: "bad"}, mcpvisor.ServerSpec{Name: "gone", Stdio: &mcpvisor.Stdio{Command: "no-such-command-here"}})
	err := c.RegisterAll(t.Context(), specs)
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
	require.NoError(t, c.RegisterAll(t.Context(), nil))
}

func TestRegisterAll_registers_the_first_of_two_specs_with_one_name(t *testing.T) {
	for range 20 { // it must not depend on who is faster
		c := newClient(t)
		spec := func(server string) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: "twin", InMemory: mcptest.InMemory(mcptest.Script{Name: server})}
		}
		err := c.RegisterAll(t.Context(), []mcpvisor.ServerSpec{spec("first"), spec("second")})
		require.ErrorIs(t, err, mcpvisor.ErrExists)
		require.ErrorContains(t, err, "register twin: already registered: specs 1 and 2 of the list have the same name; rename one of them")
		s, ok := c.ServerStatus("twin")
		require.True(t, ok)
		require.Equal(t, "first", s.Session.ServerName)
	}
}

// Every start blocks until release, which is closed once the bound is reached. Without a
// bound more starts would be blocked by then.
func TestRegisterAll_bounds_concurrent_starts(t *testing.T) {
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
	go func() { applied <- c.RegisterAll(context.Background(), specs) }()
	require.Eventually(t, func() bool { return starting.Load() >= bound }, 30*time.Second, time.Millisecond)
	for range 100 { // gives other starts the chance to begin
		runtime.Gosched()
	}
	close(release)
	require.NoError(t, <-applied)
	require.Equal(t, bound, most.Load())
	require.Len(t, c.Servers(), len(specs))
}

func TestRegisterAll_ends_with_its_context(t *testing.T) {
	c := newClient(t)
	ctx, cancel := context.WithCancel(t.Context())
	specs := make([]mcpvisor.ServerSpec, 100)
	for i := range specs {
		specs[i] = mcpvisor.ServerSpec{Name: fmt.Sprintf("mute%02d", i), InMemory: mcptest.InMemory(mcptest.Script{
			Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionHangAll}}})}
	}
	applied := make(chan error, 1)
	go func() { applied <- c.RegisterAll(ctx, specs) }()
	require.Eventually(t, func() bool { return len(c.Servers()) > 0 }, 30*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-applied, mcpvisor.ErrCanceled)
	require.Eventually(t, func() bool { return len(c.Servers()) == 0 }, 30*time.Second, time.Millisecond)
}
