package facade_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A lazy server whose lists are kept is listed without a process, and a difference on waking is a change.
func TestCatalogStore(t *testing.T) {
	dir := mcpvisor.CatalogDir(t.TempDir() + "/kept")
	var l lives
	spec := l.spec("a")
	spec.Start = mcpvisor.StartLazy
	first, err := facade.New(facade.WithCatalogStore(dir))
	require.NoError(t, err)
	require.NoError(t, first.Register(t.Context(), spec))
	events := first.Watch(t.Context(), mcpvisor.EventAsleep)
	if s, _ := first.ServerStatus("a"); s.State != supervisor.StateAsleep {
		<-events
	}
	want := first.Tools()
	require.Len(t, want, 2)
	require.NoError(t, first.Close(t.Context()))
	require.Equal(t, []string{"+a", "-a"}, l.take())

	c := newClient(t, facade.WithCatalogStore(dir))
	require.NoError(t, c.Register(t.Context(), spec))
	require.Equal(t, want, c.Tools())
	require.Empty(t, l.take(), "it is not started for its lists")
	ready := c.Watch(t.Context(), mcpvisor.EventReady)
	_, err = c.CallTool(t.Context(), "a/echo", nil)
	require.NoError(t, err)
	require.Nil(t, (<-ready).Change, "it offers what it offered")

	// What is kept for other tools, and what is damaged, is not used.
	other := newClient(t, facade.WithCatalogStore(dir))
	spec.Tools.Deny = []string{"die"}
	require.NoError(t, other.Register(t.Context(), spec))
	require.NoError(t, other.WaitReady(t.Context()))
	require.Len(t, other.Tools(), 1)
	require.NoError(t, dir.Save("a", []byte("{")))
	damaged := newClient(t, facade.WithCatalogStore(dir))
	require.NoError(t, damaged.Register(t.Context(), spec))
	require.NoError(t, damaged.WaitReady(t.Context()))
	require.Len(t, damaged.Tools(), 1)
}

// hangingStore does not return from Save before until is closed.
type hangingStore struct {
	mcpvisor.CatalogDir
	until chan struct{}
}

func (s hangingStore) Save(string, []byte) error { <-s.until; return nil }

// A store that hangs keeps no server from being ended.
func TestCatalogStore_hangs(t *testing.T) {
	var l lives
	store := hangingStore{mcpvisor.CatalogDir(t.TempDir()), make(chan struct{})}
	c, err := facade.New(facade.WithCatalogStore(store))
	require.NoError(t, err)
	a := l.spec("a")
	a.Start = mcpvisor.StartLazy
	require.NoError(t, c.Register(t.Context(), a, l.spec("b")))
	require.NoError(t, c.WaitReady(t.Context(), "a", "b"))
	l.take()
	closed := make(chan error, 1)
	go func() { closed <- c.Close(context.Background()) }()
	require.Eventually(t, func() bool { return len(c.Servers()) == 0 }, time.Minute, time.Millisecond)
	require.Contains(t, l.take(), "-b")
	close(store.until)
	require.NoError(t, <-closed)
}

// The whole address decides whether lists are those of a server, and they are kept again when it changes.
func TestCatalogStore_address(t *testing.T) {
	server := mcptest.NewHTTP(mcptest.Script{})
	defer server.Close()
	dir := mcpvisor.CatalogDir(t.TempDir())
	spec := func(query string) mcpvisor.ServerSpec {
		return mcpvisor.ServerSpec{Name: "a", Start: mcpvisor.StartLazy, HTTP: &mcpvisor.HTTP{URL: server.URL + query}}
	}
	starts := func(c *facade.Client, query string) int {
		before := server.Requests()
		require.NoError(t, c.Register(t.Context(), spec(query)))
		require.NoError(t, c.WaitReady(t.Context()))
		n := server.Requests() - before
		require.NoError(t, c.Unregister(t.Context(), "a"))
		return n
	}
	for _, query := range []string{"?tenant=1", "?tenant=2"} {
		c := newClient(t, facade.WithCatalogStore(dir))
		require.NotZero(t, starts(c, query), "the lists are those of another address")
		require.NoError(t, c.Close(t.Context()))
	}
	c := newClient(t, facade.WithCatalogStore(dir))
	require.Zero(t, starts(c, "?tenant=2"))
	require.NotZero(t, starts(c, "?tenant=1"))
}

// What a client knows of what it has saved ends with the registration.
func TestCatalogStore_unregistered(t *testing.T) {
	var l lives
	c := newClient(t, facade.WithCatalogStore(mcpvisor.CatalogDir(t.TempDir())))
	a := l.spec("a")
	a.Start = mcpvisor.StartLazy
	require.NoError(t, c.Register(t.Context(), a))
	require.Eventually(t, func() bool { return facade.SavedLists(c) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, c.Unregister(t.Context(), "a"))
	require.Eventually(t, func() bool { return facade.SavedLists(c) == 0 }, time.Minute, time.Millisecond)
}

// A store whose Load does not return holds up Register until its context ends.
func TestCatalogStore_load_hangs(t *testing.T) {
	var l lives
	until := make(chan struct{})
	defer close(until)
	c := newClient(t, facade.WithCatalogStore(loadHangs{mcpvisor.CatalogDir(t.TempDir()), until}))
	a := l.spec("a")
	a.Start = mcpvisor.StartLazy
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	registered := make(chan error, 1)
	go func() { registered <- c.Register(ctx, a) }()
	select {
	case err := <-registered:
		if err != nil { // else the server was faster than the end of the context was seen
			require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		}
	case <-time.After(time.Minute):
		require.Fail(t, "it waits for the store")
	}
}

// loadHangs does not return from Load before until is closed.
type loadHangs struct {
	mcpvisor.CatalogDir
	until chan struct{}
}

func (s loadHangs) Load(string) ([]byte, error) { <-s.until; return nil, nil }
