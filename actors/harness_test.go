package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
)

// harness is a runtime over scripted servers, in virtual time (testing/synctest).
type harness struct {
	t       testing.TB
	rt      *Runtime
	log     *testutil.LockedBuffer
	scripts sync.Map // server name → func(registration, epoch int) script

	mu      sync.Mutex
	dialers map[string][]*scriptedDialer
	count   int
	leaves  bool // Close reports what sessions have left behind
}

// runWithHarness runs a subtest with a harness of its own.
func runWithHarness(t *testing.T, name string, f func(t *testing.T, h *harness)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { withHarness(t, f) })
}

// withHarness runs f in virtual time, then closes the runtime and checks that every
// session is released. The synctest bubble checks that no goroutine is left.
func withHarness(t *testing.T, f func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		defer func() {
			if t.Failed() { // end all goroutines, so that the bubble reports the failure and no deadlock
				_ = h.rt.Close(context.Background())
				time.Sleep(2 * time.Second)
			}
		}()
		f(t, h)
		h.close()
	})
}

func newHarness(t testing.TB) *harness {
	h := &harness{t: t, log: new(testutil.LockedBuffer), dialers: map[string][]*scriptedDialer{}}
	h.rt = New(Options{NewDialer: h.newDialer, Logger: zerolog.New(h.log)})
	return h
}

func (h *harness) newDialer(spec mcpvisor.ServerSpec) (transport.Dialer, error) {
	found, ok := h.scripts.Load(spec.Name)
	if !ok {
		return nil, fmt.Errorf("no script for %s", spec.Name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	id := h.count
	d := &scriptedDialer{t: h.t, id: id, standby: spec.Standby, script: func(epoch int) script {
		return found.(func(int, int) script)(id, epoch)
	}}
	h.dialers[spec.Name] = append(h.dialers[spec.Name], d)
	return d, nil
}

func (h *harness) close() {
	started := time.Now()
	if err := h.rt.Close(context.Background()); h.leaves {
		require.ErrorIs(h.t, err, mcpvisor.ErrLeftBehind)
	} else {
		require.NoError(h.t, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, dialers := range h.dialers {
		for _, d := range dialers {
			require.Falsef(h.t, d.isKept(), "%s: registration %d keeps something after Close", name, d.id)
			for _, s := range d.all() {
				require.Truef(h.t, isClosed(s.released), "%s: session %d of registration %d outlives Close", name, s.epoch, d.id)
			}
		}
	}
	require.LessOrEqual(h.t, time.Since(started), time.Minute, "Close takes as long as the slowest release, not longer")
	time.Sleep(2 * time.Second) // background goroutines of the actor library end by then
}

// script sets the same script for every session of a server.
func (h *harness) script(name string, s script) {
	h.scripts.Store(name, func(int, int) script { return s })
}

// scriptSessions sets a script for each session in turn; the last one repeats.
func (h *harness) scriptSessions(name string, scripts ...script) {
	h.scripts.Store(name, func(_, epoch int) script { return scripts[min(epoch, len(scripts))-1] })
}

func (h *harness) sessions(name string) []*scriptedSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*scriptedSession
	for _, d := range h.dialers[name] {
		all = append(all, d.all()...)
	}
	return all
}

func (h *harness) session(name string) *scriptedSession {
	all := h.sessions(name)
	return all[len(all)-1]
}

// register adds a server that must become ready.
func (h *harness) register(spec mcpvisor.ServerSpec) {
	h.t.Helper()
	require.NoError(h.t, h.rt.Register(context.Background(), spec))
	synctest.Wait()
}

func (h *harness) call(ctx context.Context, name string, timeout time.Duration) (epoch int, err error) {
	v := h.rt.Snapshot().Server(name)
	if v == nil {
		return 0, fmt.Errorf("%s is not registered", name)
	}
	raw, _, err := h.rt.Request(ctx, v, &transport.Request{Method: "tools/call"}, timeout)
	if err != nil {
		return 0, err
	}
	var answer struct{ Epoch int }
	err = json.Unmarshal(raw, &answer)
	return answer.Epoch, err
}

// settle waits until no actor has anything to do at this instant.
func (h *harness) settle() { synctest.Wait() }

// state settles, and returns the state that the snapshot shows.
func (h *harness) state(name string) supervisor.State {
	h.settle()
	if v := h.rt.Snapshot().Server(name); v != nil {
		return v.State
	}
	return "absent"
}

// supervisorOf and portOf find actors; no message may be in flight.
func (h *harness) supervisorOf(name string) *actor.PID {
	synctest.Wait()
	return h.rt.managerState.registrations[name].supervisor
}

func (h *harness) portOf(name string) *actor.PID {
	parent := h.supervisorOf(name)
	v := h.rt.Snapshot().Server(name)
	return actor.NewPID(parent.Address, fmt.Sprintf("%s/port-%s.%d.%d", parent.Id, name, v.Gen, v.Epoch))
}

// Messages that make their receiver panic: nil pointers.
func (h *harness) crashManager()               { h.rt.post((*report)(nil)) }
func (h *harness) crashSupervisor(name string) { h.send(h.supervisorOf(name), (*messages.Failed)(nil)) }
func (h *harness) crashPort(name string)       { h.send(h.portOf(name), (*messages.EndSession)(nil)) }
func (h *harness) send(pid *actor.PID, m any)  { h.rt.system.Root.Send(pid, m) }

// events records what is published from now on.
func (h *harness) events() func() []mcpvisor.Event {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var got []mcpvisor.Event
	events := h.rt.Events().Watch(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			mu.Lock()
			got = append(got, e)
			mu.Unlock()
		}
	}()
	h.t.Cleanup(func() { cancel(); <-done })
	return func() []mcpvisor.Event {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return append([]mcpvisor.Event(nil), got...)
	}
}

func kinds(events []mcpvisor.Event) []mcpvisor.EventKind {
	list := make([]mcpvisor.EventKind, 0, len(events))
	for _, e := range events {
		list = append(list, e.Kind)
	}
	return list
}

// asError is the *mcpvisor.Error that every failure here must be.
func asError(t testing.TB, err error) *mcpvisor.Error {
	t.Helper()
	var e *mcpvisor.Error
	require.Truef(t, errors.As(err, &e), "want a *mcpvisor.Error, got %T: %v", err, err)
	return e
}

// requireError requires an error of a kind and an outcome.
func requireError(t testing.TB, err error, kind mcpvisor.ErrorKind, outcome mcpvisor.Outcome) *mcpvisor.Error {
	t.Helper()
	e := asError(t, err)
	require.Equal(t, kind, e.Kind, "%v", e)
	require.Equal(t, outcome, e.Outcome)
	return e
}

// spends returns the virtual time that f takes.
func spends(f func()) time.Duration {
	started := time.Now()
	f()
	return time.Since(started)
}

// endCalls calls the functions of OnDead and OnReleased of a session of the tests.
type endCalls struct{ dead sync.WaitGroup }

func (c *endCalls) onDead(dead <-chan struct{}, f func()) {
	c.dead.Go(func() {
		<-dead
		f()
	})
}

func (c *endCalls) onReleased(released <-chan struct{}, f func()) {
	go func() {
		<-released
		c.dead.Wait()
		f()
	}()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
