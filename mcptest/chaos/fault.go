package chaos

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Names of the faults of [Faults] and [Run].
const (
	// FaultKill is SIGKILL to the process of a server, without notice.
	FaultKill = "kill"
	// FaultStop is SIGSTOP, and after a moment SIGCONT.
	FaultStop = "stop"
	// FaultStopKill is SIGSTOP, and after a moment SIGKILL.
	FaultStopKill = "stop and kill"
	// FaultRestart is facade.Client.Restart: a polite end, and a new start.
	FaultRestart = "restart"
	// FaultFlood is many calls at once, half of which are canceled.
	FaultFlood = "flood"
	// FaultCut breaks all connections to a server over HTTP, on the side of the client.
	FaultCut = "cut connections"
)

// Fault is one thing that can happen to a server.
type Fault struct {
	// Name is how the fault is counted.
	Name string
	// Weight is how often it is chosen beside others. Default 1.
	Weight int
	// Inject injects the fault and returns when it is over. It returns the process that got
	// a signal, or 0, and whether the fault happened: a server may be down already. r belongs
	// to the goroutine that calls Inject; it alone should decide what is random.
	Inject func(ctx context.Context, r *rand.Rand) (pid int, happened bool)
}

// Target is a server and the faults that it gets.
type Target struct {
	// Server is the name of the server.
	Server string
	// Faults happen once each, in random order, and then at random by their weights.
	Faults []Fault
	// MaxPause is the longest pause before a fault. Default 400 ms.
	MaxPause time.Duration
	// After, if set, runs after each fault that happened, and the next one waits for it.
	// When it returns false the target gets no more faults.
	After func(Injection) bool
}

// Injection is one fault that happened.
type Injection struct {
	// Server got the fault of that name.
	Server string `json:"server"`
	Fault  string `json:"fault"`
	// Time is when its injection began.
	Time time.Time `json:"time"`
	// PID is the process that got a signal, or 0.
	PID int `json:"pid,omitempty"`
}

// Inject injects faults until ctx ends: one after another into each target, and into all
// targets at once. It returns what it injected, in the order of time, when the last fault is
// over.
func Inject(ctx context.Context, seed uint64, targets ...Target) []Injection {
	var mu sync.Mutex
	var all []Injection
	var wg sync.WaitGroup
	for _, target := range targets {
		wg.Go(func() {
			target.inject(ctx, random(seed, target.Server), func(i Injection) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, i)
			})
		})
	}
	wg.Wait()
	slices.SortStableFunc(all, func(a, b Injection) int { return a.Time.Compare(b.Time) })
	return all
}

// random returns the random source of one goroutine.
func random(seed uint64, who string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(who))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

func (t Target) inject(ctx context.Context, r *rand.Rand, record func(Injection)) {
	longest := t.MaxPause
	if longest <= 0 {
		longest = 400 * time.Millisecond
	}
	first := r.Perm(len(t.Faults))
	for n := 0; len(t.Faults) > 0; n++ {
		pause(ctx, time.Duration(r.Int64N(int64(longest))))
		if ctx.Err() != nil {
			return
		}
		fault := t.choose(r)
		if n < len(first) {
			fault = t.Faults[first[n]]
		}
		i := Injection{Server: t.Server, Fault: fault.Name, Time: time.Now()}
		var happened bool
		if i.PID, happened = fault.Inject(ctx, r); !happened {
			continue
		}
		record(i)
		if t.After != nil && !t.After(i) {
			return
		}
	}
}

// choose chooses a fault by weight.
func (t Target) choose(r *rand.Rand) Fault {
	sum := 0
	for _, f := range t.Faults {
		sum += max(f.Weight, 1)
	}
	n := r.IntN(sum)
	for _, f := range t.Faults {
		if n -= max(f.Weight, 1); n < 0 {
			return f
		}
	}
	return t.Faults[0] // not reached
}

// Faults returns the faults that every server of a client can get, by its transport: kill,
// stop, stop and kill, and restart for a process, restart for any other. Inject them only into
// servers that c started: other programs may use a server that is reached over HTTP, and a
// restart ends only the session of this client there.
func Faults(c *facade.Client, server string) []Fault {
	restart := Fault{Name: FaultRestart, Inject: func(ctx context.Context, _ *rand.Rand) (int, bool) {
		return 0, c.Restart(ctx, server) == nil
	}}
	st, _ := c.ServerStatus(server)
	if st.Transport != "stdio" {
		return []Fault{restart}
	}
	kill := func(context.Context, *rand.Rand) (int, bool) { return signalServer(c, server, sigKill) }
	faults := []Fault{{Name: FaultKill, Weight: 4, Inject: kill}, restart}
	if sigStop == nil {
		return faults
	}
	stop := func(end signal) func(context.Context, *rand.Rand) (int, bool) {
		return func(ctx context.Context, r *rand.Rand) (int, bool) {
			length := time.Duration(20+r.IntN(500)) * time.Millisecond
			pid, ok := signalServer(c, server, sigStop)
			if ok {
				pause(ctx, length)
				signalChild(pid, end)
			}
			return pid, ok
		}
	}
	return append(faults, Fault{Name: FaultStop, Weight: 2, Inject: stop(sigContinue)}, Fault{Name: FaultStopKill, Inject: stop(sigKill)})
}

// signalServer signals the process of a server, if it has one.
func signalServer(c *facade.Client, server string, sig signal) (pid int, sent bool) {
	st, ok := c.ServerStatus(server)
	if !ok || st.Session == nil {
		return 0, false
	}
	return st.Session.PID, signalChild(st.Session.PID, sig)
}

// Recovery returns what followed each [FaultKill]: the time until the client noticed it
// (mcpvisor.EventDown), and the time until the server was ready again, the delay of its policy
// included. events are those of the client, in order. A kill of a server that had ended by
// itself, or was being restarted, has none.
func Recovery(injected []Injection, events []mcpvisor.Event) (noticed, ready []time.Duration) {
	for _, k := range injected {
		i := slices.IndexFunc(events, func(e mcpvisor.Event) bool {
			return e.Kind == mcpvisor.EventReady && e.Server == k.Server && e.PID == k.PID
		})
		if k.Fault != FaultKill || i < 0 || events[i].Time.After(k.Time) {
			continue
		}
		down, up := afterKill(k, events[i], events[i+1:])
		if down > 0 {
			noticed = append(noticed, down)
		}
		if down > 0 && up > 0 {
			ready = append(ready, up)
		}
	}
	return noticed, ready
}

// afterKill returns the times from a kill to the events that it led to; 0 for what did not
// follow. was is the event with which the killed incarnation became ready.
func afterKill(k Injection, was mcpvisor.Event, later []mcpvisor.Event) (down, ready time.Duration) {
	for _, e := range later {
		switch {
		case e.Server != was.Server || e.Gen != was.Gen:
		case e.Kind == mcpvisor.EventDown && e.Epoch == was.Epoch:
			if e.Time.Before(k.Time) || e.Cause == nil || e.Cause.Kind != supervisor.CauseSignal {
				return 0, 0
			}
			down = e.Time.Sub(k.Time)
		case e.Kind == mcpvisor.EventReady:
			return down, e.Time.Sub(k.Time)
		}
	}
	return down, 0
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) { _ = backoff.Sleep(ctx, d) }

// signalIf signals a process if it is the right one. On Linux and Windows no other process gets its pid meanwhile.
func signalIf(pid int, sig signal, right func() bool) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return right() && p.Signal(sig) == nil
}
