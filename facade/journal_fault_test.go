package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// faultyJournal is a memoryJournal whose methods misbehave while fault is set.
type faultyJournal struct {
	memoryJournal
	fault atomic.Pointer[func(ctx context.Context, verb string, state mcpvisor.JournalState) error]
}

func (j *faultyJournal) set(fault func(ctx context.Context, verb string, state mcpvisor.JournalState) error) {
	j.fault.Store(&fault)
}

func (j *faultyJournal) fails(ctx context.Context, verb string, state mcpvisor.JournalState) error {
	if fault := j.fault.Load(); fault != nil && *fault != nil {
		return (*fault)(ctx, verb, state)
	}
	return nil
}

func (j *faultyJournal) Lock(ctx context.Context, key mcpvisor.JournalKey) (func(), error) {
	if err := j.fails(ctx, "lock", ""); err != nil {
		return nil, err
	}
	unlock, err := j.memoryJournal.Lock(ctx, key)
	return func() {
		unlock()
		_ = j.fails(ctx, "unlock", "")
	}, err
}

func (j *faultyJournal) Hold(key mcpvisor.JournalKey) func() {
	_ = j.fails(context.Background(), "hold", "")
	return j.memoryJournal.Hold(key)
}

func (j *faultyJournal) Get(ctx context.Context, key mcpvisor.JournalKey) (e mcpvisor.JournalEntry, ok bool, err error) {
	if err := j.fails(ctx, "get", ""); err != nil {
		return e, false, err
	}
	return j.memoryJournal.Get(ctx, key)
}

func (j *faultyJournal) Put(ctx context.Context, e mcpvisor.JournalEntry) error {
	if err := j.fails(ctx, "put", e.State); err != nil {
		return err
	}
	return j.memoryJournal.Put(ctx, e)
}

func (j *faultyJournal) Delete(ctx context.Context, key mcpvisor.JournalKey) error {
	if err := j.fails(ctx, "delete", ""); err != nil {
		return err
	}
	return j.memoryJournal.Delete(ctx, key)
}

func (j *faultyJournal) Entries(ctx context.Context) ([]mcpvisor.JournalEntry, error) {
	if err := j.fails(ctx, "entries", ""); err != nil {
		return nil, err
	}
	return j.memoryJournal.Entries(ctx)
}

// A journal that misbehaves costs the calls with a key, and no more of them than it must: each ends, and
// is executed once at most; a call whose journal is right again has its key; calls without a key
// are not affected.
func TestWithJournal_that_misbehaves(t *testing.T) {
	errFull := fmt.Errorf("%w: 3 entries", mcpvisor.ErrJournalFull)
	ways := map[string]func(context.Context) error{
		"full":    func(context.Context) error { return errFull },
		"panics":  func(context.Context) error { panic("boom") },
		"goexit":  func(context.Context) error { runtime.Goexit(); return nil },
		"fails":   func(context.Context) error { return (*json.SyntaxError)(nil) }, // its Error panics
		"hangs":   func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"is slow": func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil },
	}
	for way, misbehave := range ways {
		for _, where := range []string{"lock ", "get ", "put sent", "put ended", "unlock ", "delete ", "entries "} {
			t.Run(way+" at "+where, func(t *testing.T) {
				if way == "hangs" && where == "unlock " {
					t.Skip("the context is that of Lock")
				}
				synctest.Test(t, func(t *testing.T) {
					j, dir := new(faultyJournal), t.TempDir()
					c, err := facade.New(facade.WithJournal(j, ""))
					require.NoError(t, err)
					require.NoError(t, c.Register(t.Context(), countServer(dir)))
					call := func(within time.Duration) error {
						ctx, cancel := context.WithTimeout(t.Context(), within)
						defer cancel()
						_, err := c.CallTool(ctx, "s/job", jobArgs, facade.WithKey("k"))
						return err
					}
					j.set(func(ctx context.Context, verb string, state mcpvisor.JournalState) error {
						if verb+" "+string(state) == where {
							return misbehave(ctx)
						}
						return nil
					})
					err = call(time.Second)
					_, plain := c.CallTool(t.Context(), "s/job", map[string]any{"key": "plain"})
					require.NoError(t, plain)
					if where == "entries " {
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
						_, listed := c.JournalEntries(ctx)
						cancel()
						require.Equal(t, way == "is slow", listed == nil, "%v", listed)
					}
					before := where == "lock " || where == "get " || where == "put sent"
					switch {
					case way == "is slow" || !before:
						require.NoError(t, err, "the answer has come")
					case way == "hangs":
						require.ErrorIs(t, err, mcpvisor.ErrCanceled)
						requireOutcome(t, err, mcpvisor.OutcomeNotSent)
					default:
						require.ErrorIs(t, err, mcpvisor.ErrJournal)
						requireOutcome(t, err, mcpvisor.OutcomeNotSent)
					}
					j.set(nil)
					if way == "hangs" && where == "put ended" { // until the end is stored, the key is locked
						require.ErrorIs(t, call(20*time.Millisecond), mcpvisor.ErrCanceled)
					}
					if way == "hangs" {
						ctx, cancel := context.WithCancel(t.Context())
						cancel()
						_ = c.Close(ctx) // gives up what hangs
						c = journaled(t, j, "")
						require.NoError(t, c.Register(t.Context(), countServer(dir)))
					} else {
						defer func() { require.NoError(t, c.Close(context.Background())) }()
					}
					switch err = call(time.Minute); {
					case where != "put ended" || way == "is slow":
						require.NoError(t, err, "the key is usable")
					default: // the journal could not note it
						require.ErrorIs(t, err, mcpvisor.ErrInterrupted)
					}
					require.Equal(t, 1, mcptest.Executions(dir)[jobKey])
				})
			})
		}
	}
}

// The end of a call is stored, however long the store takes: the caller has its answer before. The next
// call with the key sees the end.
func TestWithKey_of_a_slow_store(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, dir := new(faultyJournal), t.TempDir()
		c := journaled(t, j, "")
		require.NoError(t, c.Register(t.Context(), countServer(dir)))
		free := make(chan struct{})
		j.set(func(_ context.Context, verb string, state mcpvisor.JournalState) error {
			if state == mcpvisor.JournalEnded {
				<-free // whatever its context says
			}
			return nil
		})
		call := func() error {
			_, err := c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
			return err
		}
		require.NoError(t, call())
		again := make(chan error, 1)
		go func() { again <- call() }()
		other := journaled(t, j, "") // shares the store
		require.NoError(t, other.Register(t.Context(), countServer(dir)))
		go func() { _, err := other.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("k")); again <- err }()
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.Background()) }() // waits for the end
		require.Never(t, func() bool { return len(closed) > 0 }, 50*time.Millisecond, time.Millisecond)
		close(free)
		require.NoError(t, <-closed)
		for range 2 {
			if err := <-again; err != nil {
				require.ErrorIs(t, err, mcpvisor.ErrClosed) // never ErrInterrupted
			}
		}
		require.Equal(t, mcpvisor.JournalEnded, j.entries[mcpvisor.JournalKey{Key: "k"}].State)
		require.Equal(t, 1, mcptest.Executions(dir)[jobKey])
	})
}

// What waits for a store that hangs is bounded in bytes: beyond, ends are stored without results.
func TestWithKey_ends_that_wait_are_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(faultyJournal)
		c := registered(t, mcpvisor.ServerSpec{Name: "s", InMemory: mcptest.InMemory(mcptest.Script{})}, facade.WithJournal(j, ""), facade.WithMaxBufferBytes(8<<20))
		free := make(chan struct{})
		j.set(func(_ context.Context, verb string, state mcpvisor.JournalState) error {
			if state == mcpvisor.JournalEnded {
				<-free
			}
			return nil
		})
		const n = 8
		args := map[string]any{"text": strings.Repeat("x", 500_000)}
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, err := c.CallTool(t.Context(), "s/echo", args, facade.WithKey(fmt.Sprint(i)))
				require.NoError(t, err)
			})
		}
		wg.Wait()
		// Those without room give up their results within three seconds.
		time.Sleep(5 * time.Second)
		close(free)
		kept, ended := 0, 0
		require.Eventually(t, func() bool {
			all, err := c.JournalEntries(t.Context())
			require.NoError(t, err)
			ended = 0
			for _, e := range all {
				if e.State == mcpvisor.JournalEnded {
					ended++
				}
			}
			return ended == n
		}, time.Minute, time.Millisecond, "all ends are stored")
		for i := range n {
			e, ok, err := j.Get(t.Context(), mcpvisor.JournalKey{Key: fmt.Sprint(i)})
			require.NoError(t, err)
			require.True(t, ok)
			if len(e.Result) > 0 {
				kept += len(e.Result)
			}
			require.Greater(t, e.ResultBytes, 500_000)
		}
		require.Positive(t, kept)
		require.LessOrEqual(t, kept, 3*600_000, "a quarter of the buffer, and one more; each counts three times")
	})
}

// Two clients that share a store execute each key once.
func TestWithKey_of_two_clients(t *testing.T) {
	j, dir := new(memoryJournal), t.TempDir()
	j.fail = func(string, mcpvisor.JournalEntry) error { runtime.Gosched(); return nil }
	var clients []*facade.Client
	for range 2 {
		c := journaled(t, j, "")
		require.NoError(t, c.Register(t.Context(), countServer(dir)))
		clients = append(clients, c)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		for _, c := range clients {
			wg.Go(func() {
				key := fmt.Sprint(i)
				_, err := c.CallTool(t.Context(), "s/job", map[string]any{"key": key}, facade.WithKey(key))
				require.NoError(t, err)
			})
		}
	}
	wg.Wait()
	executed := mcptest.Executions(dir)
	require.Len(t, executed, 50)
	for key, n := range executed {
		require.Equal(t, 1, n, key)
	}
}

// Keys of different principals are different, and no text makes one the other.
func TestWithKeyOf(t *testing.T) {
	j, dir := new(memoryJournal), t.TempDir()
	c := journaled(t, j, "")
	require.NoError(t, c.Register(t.Context(), countServer(dir)))
	for i, key := range []mcpvisor.JournalKey{{Key: "k"}, {Principal: "alice", Key: "k"}, {Principal: "ali", Key: "cek"}, {Key: "k of alice"}, {Key: "alicek"}, {Principal: "k", Key: "alice"}} {
		for range 2 {
			_, err := c.CallTool(t.Context(), "s/job", map[string]any{"key": fmt.Sprint(i)}, relay.WithKeyOf(key.Principal, key.Key))
			require.NoError(t, err)
		}
		require.Len(t, j.entries, i+1)
		resumed, err := c.ResumeTask(t.Context(), key)
		require.NoError(t, err)
		got, err := resumed.Wait(t.Context())
		require.NoError(t, err)
		require.Contains(t, text(t, got), fmt.Sprintf(`"executions":1,"key":"%d"`, i))
	}
}

// A key is held while its task is listed as open: until Wait has its end, the task is canceled, or the
// client is closed.
func TestWithKey_holds_the_key_of_a_task(t *testing.T) {
	j, dir := new(memoryJournal), t.TempDir()
	c, err := facade.New(facade.WithJournal(j, ""))
	require.NoError(t, err)
	script := mcptest.Script{StateDir: dir, Tools: append(mcptest.DefaultTools(),
		mcptest.ToolDef{Name: "job", As: "count", Task: &mcptest.TaskDef{Poll: time.Millisecond}}, mcptest.ToolDef{Name: "long", As: "count", Task: &mcptest.TaskDef{Takes: time.Hour, Poll: time.Millisecond}})}
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond), InMemory: mcptest.InMemory(script)}))
	key := func(name string) mcpvisor.JournalKey { return mcpvisor.JournalKey{Key: name} }
	first, err := c.StartTask(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
	require.NoError(t, err)
	second, err := c.StartTask(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
	require.NoError(t, err)
	_, err = first.Wait(t.Context())
	require.NoError(t, err)
	require.True(t, j.Held(key("k")), "by the second handle")
	_, err = second.Wait(t.Context())
	require.NoError(t, err)
	require.False(t, j.Held(key("k")))

	canceled, err := c.StartTask(t.Context(), "s/long", map[string]any{"key": "c"}, facade.WithKey("c"))
	require.NoError(t, err)
	require.True(t, j.Held(key("c")))
	require.NoError(t, canceled.Cancel(t.Context()))
	require.False(t, j.Held(key("c")))

	_, err = c.StartTask(t.Context(), "s/long", map[string]any{"key": "l"}, facade.WithKey("l"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	called := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "s/long", map[string]any{"key": "called"}, facade.WithKey("called"))
		called <- err
	}()
	require.Eventually(t, func() bool { return j.Held(key("called")) }, time.Minute, time.Millisecond)
	cancel()
	require.Error(t, <-called)
	require.False(t, j.Held(key("called")))
	require.True(t, j.Held(key("l")))
	require.NoError(t, c.Close(context.Background()))
	require.Empty(t, j.OpenKeys())
}

// A call that the journal has answered is answered although its server is not registered, with
// interceptors, too.
func TestWithKey_without_its_server(t *testing.T) {
	j, dir := new(memoryJournal), t.TempDir()
	first := journaled(t, j, "")
	require.NoError(t, first.Register(t.Context(), countServer(dir)))
	_, err := first.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("k"))
	require.NoError(t, err)
	for name, c := range map[string]*facade.Client{"plain": journaled(t, j, ""), "intercepted": newClient(t, facade.WithJournal(j, ""), facade.WithInterceptor(passOn))} {
		t.Run(name, func(t *testing.T) {
			for _, tool := range []string{"s/job", "mcp__s__job"} {
				got, err := c.CallTool(t.Context(), tool, jobArgs, facade.WithKey("k"))
				require.NoError(t, err)
				require.Equal(t, `{"executions":1,"key":"order"}`, text(t, got))
			}
			_, err = c.CallTool(t.Context(), "s/job", jobArgs, facade.WithKey("new"))
			require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
			_, err = c.CallTool(t.Context(), "s/job", jobArgs)
			require.ErrorIs(t, err, mcpvisor.ErrUnknownServer)
			_, err = c.CallTool(t.Context(), "s/other", jobArgs, facade.WithKey("k"))
			require.ErrorIs(t, err, mcpvisor.ErrInvalid)
			require.Empty(t, j.OpenKeys())
		})
	}
	require.Equal(t, 1, mcptest.Executions(dir)[jobKey])
}

// A secret of digits in a number of the result does not make the key useless.
func TestWithKey_of_a_result_with_a_secret_number(t *testing.T) {
	j := new(memoryJournal)
	c := journaled(t, j, "")
	spec := mcpvisor.ServerSpec{Name: "s", Secrets: []string{"48392017"}, InMemory: mcptest.InMemory(mcptest.Script{})}
	require.NoError(t, c.Register(t.Context(), spec))
	args := json.RawMessage(`{"text":"x","balance":48392017.5}`)
	for range 2 {
		_, err := c.CallToolRaw(t.Context(), "s/echo", args, facade.WithKey("k"))
		require.NoError(t, err)
	}
	e := j.entries[mcpvisor.JournalKey{Key: "k"}]
	require.NotContains(t, string(e.Arguments)+string(e.Result), "48392017")
	require.JSONEq(t, `{"text":"x","balance":"***"}`, string(e.Arguments))
}

// A handle whose key was resolved, and is of a later call by now, does not write over that call.
func TestTask_that_ends_when_its_key_is_of_another_call(t *testing.T) {
	release := make(chan struct{})
	var calls atomic.Int32
	server := rawServer(func(method, line string) string {
		_, rest, _ := strings.Cut(line, `"taskId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		switch method {
		case "tools/call":
			return fmt.Sprintf(`{"resultType":"task","taskId":"secret-%d","status":"working","createdAt":"2026-01-01T00:00:0%dZ","pollIntervalMs":20}`, calls.Add(1), calls.Load())
		case "tasks/get":
			status := `"working"`
			n := strings.TrimPrefix(id, "secret-")
			if n == "1" {
				select {
				case <-release:
					status = `"completed","result":{"content":[{"type":"text","text":"first execution"}]}`
				default:
				}
			}
			return fmt.Sprintf(`{"resultType":"complete","taskId":%q,"createdAt":"2026-01-01T00:00:0%sZ","pollIntervalMs":20,"status":%s}`, id, n, status)
		}
		return modernTasks(method)
	})
	j := new(memoryJournal)
	key := mcpvisor.JournalKey{Key: "k"}
	// The client that begins the call ends.
	c1, err := facade.New(facade.WithJournal(j, ""))
	require.NoError(t, err)
	spec := mcpvisor.ServerSpec{Name: "s", InMemory: server}
	require.NoError(t, c1.Register(t.Context(), spec))
	_, err = c1.StartTask(t.Context(), "s/x", nil, facade.WithKey("k"))
	require.NoError(t, err)
	require.NoError(t, c1.Close(context.Background()))
	// The next one finds the task, and waits later.
	c := journaled(t, j, "")
	require.NoError(t, c.Register(t.Context(), spec))
	old, err := c.ResumeTask(t.Context(), key)
	require.NoError(t, err)
	e, _, err := j.Get(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, c.ResolveKey(t.Context(), key, facade.KeyResolution{Seen: e.Updated, By: "op", NotRun: true}))
	second, err := c.StartTask(t.Context(), "s/x", nil, facade.WithKey("k"))
	require.NoError(t, err)
	require.Equal(t, "secret-2", second.ID())
	e, _, _ = j.Get(t.Context(), key)
	require.Equal(t, "secret-2", e.TaskID)
	close(release)
	got, err := old.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "first execution", text(t, got))
	e, _, _ = j.Get(t.Context(), key)
	require.Equal(t, mcpvisor.JournalTask, e.State, "the entry of the second call")
}

// Results whose end waits for a note of the journal are within the bound of the client.
func TestWithKey_ends_behind_a_note_are_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := new(faultyJournal)
		c := newClient(t, facade.WithJournal(j, ""), facade.WithMaxBufferBytes(8<<20))
		const n, size = 24, 2_000_000
		before := heapInUse()
		big := strings.Repeat("x", size)
		var calls atomic.Int32
		server := rawServer(func(method, line string) string {
			_, rest, _ := strings.Cut(line, `"taskId":"`)
			id, _, _ := strings.Cut(rest, `"`)
			switch method {
			case "tools/call":
				return fmt.Sprintf(`{"resultType":"task","taskId":"secret-%d","status":"working","createdAt":"2026-01-01T00:00:00Z","pollIntervalMs":20}`, calls.Add(1))
			case "tasks/get":
				return fmt.Sprintf(`{"resultType":"complete","taskId":%q,"status":"completed","createdAt":"2026-01-01T00:00:00Z","result":{"content":[{"type":"text","text":%q}]}}`, id, big)
			}
			return modernTasks(method)
		})
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: server}))
		free := make(chan struct{})
		j.set(func(_ context.Context, _ string, state mcpvisor.JournalState) error {
			if state == mcpvisor.JournalTask {
				<-free
			}
			return nil
		})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				_, err := c.CallToolRaw(t.Context(), "s/x", nil, facade.WithKey(fmt.Sprint(i)))
				require.NoError(t, err)
			})
		}
		wg.Wait()
		// Results that find no room are dropped after a while.
		time.Sleep(5 * time.Second)
		require.Less(t, heapInUse()-before, 30<<20)
		close(free)
		require.Eventually(t, func() bool {
			all, _ := c.JournalEntries(t.Context())
			ended := 0
			for _, e := range all {
				if e.State == mcpvisor.JournalEnded {
					ended++
				}
			}
			return ended == n
		}, time.Minute, 10*time.Millisecond)
	})
}
