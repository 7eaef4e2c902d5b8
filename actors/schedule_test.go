package actors

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/messages"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

var (
	scheduleSeed  = flag.Uint64("schedules.seed", 0, "play only the schedule of this seed; 0: new ones")
	scheduleCount = flag.Int("schedules.count", 250, "how many random schedules to play")
)

// Callers register, call, restart, unregister and close at random, while servers crash,
// hang, start badly and release late, and now and then an actor panics. Time is virtual;
// the Go scheduler orders what happens at one instant.
func TestRandomSchedules(t *testing.T) {
	seed, count := *scheduleSeed, *scheduleCount
	if seed != 0 {
		count = 1
	} else if testing.Short() {
		count /= 5
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("%d schedules from seed %d", count, seed)
	var sum schedule
	for i := range count {
		seed := seed + uint64(i)
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			withHarness(t, func(_ *testing.T, h *harness) { sum.add(play(h, seed)) })
		})
		if !ok {
			t.Fatalf("repeat it with: go test -race ./actors -run TestRandomSchedules -schedules.seed %d", seed)
		}
	}
	t.Logf("%d operations, %d calls answered, %d failed; %d sessions, %d events", sum.ops, sum.answered, sum.failed, sum.sessions, sum.events)
	if count > 100 {
		require.Positive(t, sum.answered, "schedules that answer nothing test nothing")
		require.Positive(t, sum.failed)
	}
}

// schedule is what one run did.
type schedule struct{ ops, answered, failed, sessions, events int }

func (s *schedule) add(o schedule) {
	s.ops, s.answered, s.failed = s.ops+o.ops, s.answered+o.answered, s.failed+o.failed
	s.sessions, s.events = s.sessions+o.sessions, s.events+o.events
}

// schedulePlayer plays one schedule.
type schedulePlayer struct {
	*harness
	mu    sync.Mutex
	done  schedule
	wrong []string
	calls map[string]error // how each call ended, by its id
}

var serverNames = []string{"a", "b", "c"}

func play(h *harness, seed uint64) schedule {
	p := &schedulePlayer{harness: h, calls: map[string]error{}}
	rnd := rand.New(rand.NewPCG(seed, 1))
	for _, name := range serverNames {
		p.scripts.Store(name, func(registration, epoch int) script {
			// A source of its own: the order of the goroutines must change nothing.
			return randomScript(rand.New(rand.NewPCG(seed, uint64(registration)<<32|uint64(epoch)<<8|uint64(name[0]))))
		})
	}
	events := p.events()
	var wg sync.WaitGroup
	for i := range 2 + rnd.IntN(4) {
		own := rand.New(rand.NewPCG(seed, 100+uint64(i)))
		wg.Go(func() {
			for n := range 5 + own.IntN(15) {
				time.Sleep(time.Duration(own.IntN(4)) * 700 * time.Millisecond)
				p.operate(own, fmt.Sprintf("%d.%d", i, n))
			}
		})
	}
	if rnd.IntN(4) == 0 { // Close comes early: every caller must still get an answer
		wg.Go(func() {
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Second)
			p.report(p.rt.Close(context.Background()))
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	for began := time.Now(); !isClosed(over); time.Sleep(time.Second) {
		synctest.Wait()
		p.checkSnapshot()
		if time.Since(began) > 24*time.Hour {
			p.fail("the schedule does not end: an operation hangs")
			break
		}
	}
	p.report(p.rt.Close(context.Background()))
	synctest.Wait()
	p.checkLives(events())
	p.checkCalls()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done.events = len(events())
	require.Empty(h.t, p.wrong)
	return p.done
}

// randomScript mostly describes a good server: one that never starts tests little.
func randomScript(rnd *rand.Rand) (s script) {
	s.tools = []string{"ls", "cat"}[:1+rnd.IntN(2)]
	s.openAfter = time.Duration(rnd.IntN(3)) * 100 * time.Millisecond
	s.listAfter = time.Duration(rnd.IntN(3)) * 100 * time.Millisecond
	s.callAfter = time.Duration(rnd.IntN(4)) * 300 * time.Millisecond
	s.releaseAfter = time.Duration(rnd.IntN(3)) * 500 * time.Millisecond
	switch rnd.IntN(14) {
	case 0:
		s.openErr = errScripted
	case 1:
		s.openHangs = true
	case 2:
		s.openPanics = true
	case 3:
		s.listErr = true
	case 4:
		s.openErr = &supervisor.Cause{Kind: supervisor.CauseSpawn, Permanent: true, Message: "no such command (scripted)"}
	case 5:
		s.callHangs = true
	case 6:
		s.probePanics = true
	case 7, 8, 9:
		s.crashAfter = time.Duration(1+rnd.IntN(15)) * 400 * time.Millisecond
	}
	return s
}

// operate does one thing that a user, a server or an accident may do.
func (p *schedulePlayer) operate(rnd *rand.Rand, id string) {
	name := serverNames[rnd.IntN(len(serverNames))]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rnd.IntN(4) == 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rnd.IntN(10))*300*time.Millisecond)
		defer stop()
	}
	p.mu.Lock()
	p.done.ops++
	p.mu.Unlock()
	switch n := rnd.IntN(40); {
	case n < 10:
		p.report(p.rt.Register(ctx, randomSpec(rnd, name)))
	case n < 14:
		p.report(p.rt.Unregister(ctx, name))
	case n < 17:
		p.report(p.rt.Restart(ctx, name))
	case n < 19:
		_, err := p.rt.AwaitReady(ctx, name)
		p.report(err)
	case n < 22:
		p.onLatest(name, func(s *scriptedSession) { s.Abort(errScripted) })
	case n < 24:
		p.onLatest(name, (*scriptedSession).hang)
	case n == 24:
		p.crashManager()
	case n == 25:
		p.crashInside(name, rnd.IntN(2) == 0)
	case n == 26:
		p.fence(ctx, name)
	default:
		p.call(ctx, name, id, time.Duration(1+rnd.IntN(4))*500*time.Millisecond)
	}
}

func randomSpec(rnd *rand.Rand, name string) mcpvisor.ServerSpec {
	policies := []supervisor.Policy{supervisor.NoRetry(), supervisor.Retry(3, 500*time.Millisecond), supervisor.Retry(2, 0),
		supervisor.Retry(supervisor.Unlimited, time.Second, supervisor.WithMaxDelay(4*time.Second)),
		supervisor.Retry(1, time.Second, supervisor.WithParking(5*time.Second)),
		supervisor.Retry(5, 100*time.Millisecond, supervisor.WithJitter(0.5), supervisor.WithStableAfter(3*time.Second))}
	policy := policies[rnd.IntN(len(policies))]
	return mcpvisor.ServerSpec{Name: name, Policy: policy, StartSupervised: rnd.IntN(2) == 0,
		Standby:  policy.MaxAttempts != 0 && rnd.IntN(2) == 0,
		Timeouts: mcpvisor.Timeouts{Start: 5 * time.Second, Call: 10 * time.Second},
		Probe:    mcpvisor.Probe{Interval: 2 * time.Second, Timeout: time.Second}}
}

func (p *schedulePlayer) onLatest(name string, f func(*scriptedSession)) {
	if all := p.sessions(name); len(all) > 0 {
		f(all[len(all)-1])
	}
}

// crashInside makes a supervising actor or a port panic. It takes the PIDs from the
// public view: the state of the manager must not be read from here.
func (p *schedulePlayer) crashInside(name string, port bool) {
	v := p.rt.Snapshot().Server(name)
	if v == nil {
		return
	}
	id := fmt.Sprintf("%s/supervisor-%s.%d", p.rt.root.Id+"/servers", name, v.Gen)
	if port {
		p.send(pid(p.rt, fmt.Sprintf("%s/port-%s.%d.%d", id, name, v.Gen, v.Epoch)), (*messages.EndSession)(nil))
		return
	}
	p.send(pid(p.rt, id), (*messages.Failed)(nil))
}

// fence fences a server: when that has succeeded, its registration has no session and never gets
// another one.
func (p *schedulePlayer) fence(ctx context.Context, name string) {
	before := p.rt.Snapshot().Server(name)
	err := p.rt.Fence(ctx, name, "scripted")
	p.report(err)
	v := p.rt.Snapshot().Server(name)
	if err != nil || before == nil || v == nil || v.Gen != before.Gen {
		return // it is another registration, or none
	}
	over := func(s supervisor.State) bool {
		return s == supervisor.StateEvicted || s == supervisor.StateStopping || s == supervisor.StateUnregistered
	}
	if !over(v.State) || v.State == supervisor.StateEvicted && v.current != nil && !isClosed(v.current.session.Released()) {
		p.fail("%s was fenced, and is %s", name, v.State)
	}
	time.Sleep(3 * time.Second)
	if now := p.rt.Snapshot().Server(name); now != nil && now.Gen == v.Gen && (!over(now.State) || now.Epoch != v.Epoch) {
		p.fail("%s was fenced, and later is %s, epoch %d after %d", name, now.State, now.Epoch, v.Epoch)
	}
}

// call makes a call with the current view, and records how it ended.
func (p *schedulePlayer) call(ctx context.Context, name, id string, timeout time.Duration) {
	v := p.rt.Snapshot().Server(name)
	if v == nil {
		return
	}
	began := time.Now()
	raw, _, err := p.rt.Request(ctx, v, &transport.Request{Method: "tools/call", Target: id}, timeout)
	if took := time.Since(began); took > timeout {
		p.fail("call %s took %v and was bounded by %v", id, took, timeout)
	}
	p.report(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[id] = err
	if err != nil {
		p.done.failed++
		return
	}
	p.done.answered++
	var answer struct{ Epoch uint64 }
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Epoch != v.Epoch {
		p.wrong = append(p.wrong, fmt.Sprintf("call %s went to epoch %d and was answered by %d", id, v.Epoch, answer.Epoch))
	}
}

// report checks that an error is a *mcpvisor.Error with a kind and a text.
func (p *schedulePlayer) report(err error) {
	var e *mcpvisor.Error
	switch {
	case err == nil:
	case !errors.As(err, &e):
		p.fail("%T is no *mcpvisor.Error: %v", err, err)
	case e.Kind == "" || e.Error() == "":
		p.fail("an error without a kind: %#v", e)
	}
}

func (p *schedulePlayer) fail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

// pid is the address of an actor by its name; it may have ended long ago.
func pid(rt *Runtime, id string) *actor.PID { return actor.NewPID(rt.root.Address, id) }

// checkSnapshot checks the registries while every goroutine waits: what is listed can
// be called.
func (p *schedulePlayer) checkSnapshot() {
	s := p.rt.Snapshot()
	listed := map[string]int{}
	last := ""
	for _, t := range s.Tools() {
		if t.Name <= last {
			p.fail("tools are not in order: %s after %s", t.Name, last)
		}
		last = t.Name
		listed[t.Server]++
	}
	for _, name := range s.Names() {
		v := s.Server(name)
		ready := v.State == supervisor.StateReady
		if ready != (v.Catalog != nil) {
			p.fail("%s is %s, and its catalog is there: %v", name, v.State, v.Catalog != nil)
		}
		if ready && v.current.session.Cause() != nil {
			p.fail("%s is listed as ready, and its session is dead", name)
		}
		if !ready && listed[name] > 0 {
			p.fail("%s is %s and has %d tools in the listing", name, v.State, listed[name])
		}
		delete(listed, name)
	}
	for name := range listed {
		p.fail("%s is gone and has tools in the listing", name)
	}
}

// checkLives checks the events of each registration: epochs count up, it is ready before
// it is down, it ends once, and its successor comes later.
func (p *schedulePlayer) checkLives(events []mcpvisor.Event) {
	type life struct {
		gen, epoch       uint64
		highest, standby uint64
		up, over         bool
	}
	lives := map[string]*life{}
	seq := uint64(0)
	for _, e := range events {
		if e.Seq != seq+1 && seq > 0 {
			p.fail("event %d follows event %d", e.Seq, seq)
		}
		seq = e.Seq
		s := lives[e.Server]
		if s == nil || s.gen != e.Gen {
			if s != nil && (!s.over || e.Gen < s.gen) {
				p.fail("%v: generation %d begins before %d is over", e, e.Gen, s.gen)
			}
			s = &life{gen: e.Gen}
			lives[e.Server] = s
		}
		if s.over {
			p.fail("%v: after it was unregistered", e)
		}
		switch e.Kind {
		case mcpvisor.EventConnecting:
			if e.Epoch <= s.highest || s.up {
				p.fail("%v: epoch %d after %d, which is up: %v", e, e.Epoch, s.epoch, s.up)
			}
			s.epoch, s.highest = e.Epoch, e.Epoch
		case mcpvisor.EventStandby:
			if !s.up || e.Epoch <= s.highest {
				p.fail("%v: the standby of %d", e, s.epoch)
			}
			s.standby, s.highest = e.Epoch, e.Epoch
		case mcpvisor.EventStandbyLost:
			if e.Epoch <= s.epoch {
				p.fail("%v: it was in service", e)
			}
			s.standby, s.highest = 0, e.Epoch
		case mcpvisor.EventReady:
			if took := !s.up && e.Epoch != s.epoch && e.Epoch == s.standby; took {
				s.epoch, s.standby = e.Epoch, 0
			}
			if s.up || e.Epoch != s.epoch {
				p.fail("%v: ready twice, or in the wrong epoch", e)
			}
			s.up = true
		case mcpvisor.EventDown:
			if !s.up || e.Epoch != s.epoch {
				p.fail("%v: down without having been up", e)
			}
			s.up = false
		case mcpvisor.EventUnregistered:
			s.over = true
		default:
		}
	}
	for name, s := range lives {
		if !s.over {
			p.fail("%s: generation %d has no end in the events", name, s.gen)
		}
	}
}

// checkCalls compares the errors of the callers with what arrived at the servers.
func (p *schedulePlayer) checkCalls() {
	arrived := map[string]int{}
	for _, name := range serverNames {
		for _, s := range p.sessions(name) {
			s.mu.Lock()
			for id, n := range s.ran {
				arrived[id] += n
			}
			s.mu.Unlock()
			p.mu.Lock()
			p.done.sessions++
			p.mu.Unlock()
		}
	}
	p.mu.Lock()
	ends := p.calls
	p.mu.Unlock()
	for id, err := range ends {
		var e *mcpvisor.Error
		switch n := arrived[id]; {
		case n > 1:
			p.fail("call %s arrived %d times", id, n)
		case err == nil && n == 0:
			p.fail("call %s was answered and never arrived", id)
		case errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent && n > 0:
			p.fail("call %s arrived, and its error says that it was not sent: %v", id, err)
		case errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNone:
			p.fail("call %s does not say whether it was sent: %v", id, err)
		}
	}
	for id := range arrived {
		if _, ok := ends[id]; !ok {
			p.fail("call %s arrived and never returned", id)
		}
	}
}
