package facade_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/raw"
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
