package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Options are those of [Run]. The zero value is usable.
type Options struct {
	// Duration is how long faults are injected. Starts, the last recovery and the end
	// are not included. Default 1 minute.
	Duration time.Duration
	// Seed decides which faults happen, and when. 0: a new one, which the report names.
	Seed uint64
	// Tools are called whatever they do. Of a server that has none here, those tools are called
	// that say they are read-only (readOnlyHint), with arguments made from their schemas. A tool
	// with a required parameter whose value cannot be derived is left out: it needs a default, a
	// constant, an enumeration or examples, or to be a boolean or a number.
	Tools []ToolCall
	// Flood is how many calls a flood makes at once. Default 64, at most 1,000.
	Flood int
	// CallTimeout bounds each call. Default 5 s.
	CallTimeout time.Duration
	// StartTimeout bounds the first start of a server and its return after a fault, discovery
	// included. 0: the timeouts of its spec.
	StartTimeout time.Duration
	// Progress, if set, gets what happens, when it happens. It is called by many goroutines.
	Progress func(Step)
}

// Step is something that happens in a [Run].
type Step struct {
	// Server is the server that it is about; empty if it is about the storm as a whole.
	Server string
	// Fault is set for a fault that is injected now, and Finding for what was found.
	Fault   string
	Finding FindingKind
	// Text says it in one line.
	Text string
}

// The bounds of a run.
const (
	maxFlood     = 1000
	callers      = 2                // goroutines that call one server
	hungSlack    = 10 * time.Second // how much later than its timeout a call may return
	quietTime    = 300 * time.Millisecond
	settleTime   = 3 * time.Second // how long lists may take to be complete after a start
	leftGrace    = 500 * time.Millisecond
	minShutdown  = 3 * leftGrace // the group is killed after it, and looked at before
	closeTimeout = 30 * time.Second
	noticeDelay  = 2 * time.Second  // from which Progress gets the servers that Run waits for
	patience     = 10 * time.Second // how long the storm waits for servers that start slowly, and Progress gets nothing about one that returns slowly
)

// Run starts copies of servers in a client of its own, calls their read-only tools, injects
// faults for Options.Duration, and says how each server behaved. The policies of the specs
// are not used: a copy is started again at once, up to three times in a row. It has no standby
// and no probes, and on Linux a variable in its environment, by which its processes are found.
//
// The storm begins when all servers have started or failed, or after 10 s with those that are
// ready. A server that is ready later gets its faults from then on, for the same duration.
//
// A server that Run does not start itself, over HTTP or a transport of the caller, gets only
// what harms no other client: its session is ended and begun again, and over HTTP its connections are cut
// on this side. It gets no flood, and few calls.
//
// Run returns when everything that it started has ended. The error says that Run could not
// work: a spec is not valid, a tool of Options.Tools is not listed or does not take the
// arguments, ctx ended. With ctx ended the report holds what was found until then; with another
// error it is empty.
func Run(ctx context.Context, specs []mcpvisor.ServerSpec, opts Options) (Report, error) {
	opts.Duration = cmp.Or(max(opts.Duration, 0), time.Minute)
	opts.Flood = min(cmp.Or(max(opts.Flood, 0), 64), maxFlood)
	opts.CallTimeout = cmp.Or(max(opts.CallTimeout, 0), 5*time.Second)
	for opts.Seed == 0 {
		opts.Seed = rand.Uint64N(1 << 32)
	}
	if opts.Progress == nil {
		opts.Progress = func(Step) {}
	}
	var invalid []error
	for _, spec := range specs {
		invalid = append(invalid, spec.Validate())
	}
	if err := errors.Join(append(invalid, checkCalls(opts.Tools, specs))...); err != nil {
		return Report{}, fmt.Errorf("chaos: %w", err)
	}
	c, err := facade.New()
	if err != nil {
		return Report{}, fmt.Errorf("chaos: %w", err)
	}
	s := &storm{c: c, opts: opts, began: time.Now()}
	recorded := s.recordEvents()
	misnamed := s.run(ctx, specs)
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err = errors.Join(c.Close(closing), ctx.Err())
	<-recorded
	if misnamed != nil {
		return Report{}, fmt.Errorf("chaos: %w", misnamed)
	}
	return s.report(ctx.Err() != nil), err
}

// storm is one Run.
type storm struct {
	c       *facade.Client
	opts    Options
	began   time.Time
	servers []*subject

	events []mcpvisor.Event // of the lives of the servers; read when recordEvents has ended
}

// recordEvents records the events of the client until it is closed.
func (s *storm) recordEvents() (done chan struct{}) {
	events := s.c.Watch(context.Background(), mcpvisor.EventReady, mcpvisor.EventDown)
	done = make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			s.events = append(s.events, e)
		}
	}()
	return done
}

// run starts the servers, injects faults for the duration, and ends the servers. It returns
// what is wrong with Options.Tools.
func (s *storm) run(ctx context.Context, specs []mcpvisor.ServerSpec) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	for _, spec := range specs {
		s.servers = append(s.servers, newSubject(s, spec))
	}
	slices.SortFunc(s.servers, func(a, b *subject) int { return cmp.Compare(a.name, b.name) })
	begun := make(chan struct{}) // closed when the storm begins
	var wg sync.WaitGroup
	for _, v := range s.servers {
		wg.Go(func() {
			v.start(ctx)
			close(v.started)
			<-begun
			if v.misnamed != nil {
				abort(v.misnamed) // awaitStarts has returned it, unless the server is late
			}
			if !v.hasFailed() && ctx.Err() == nil {
				v.storm(ctx)
			}
			v.end()
		})
	}
	if err := s.awaitStarts(ctx); err != nil {
		abort(err)
	}
	close(begun)
	wg.Wait()
	if misnamed := (*misnamedError)(nil); errors.As(context.Cause(ctx), &misnamed) {
		return misnamed
	}
	return nil
}

// awaitStarts waits until every server has started or failed, as long as its patience lasts,
// and says which servers it waits for. It returns what is wrong with Options.Tools.
func (s *storm) awaitStarts(ctx context.Context) error {
	notice, end := time.After(noticeDelay), time.After(patience)
	waiting := s.servers
	for len(waiting) > 0 {
		select {
		case <-waiting[0].started:
			waiting = waiting[1:]
			continue
		case <-notice:
			s.sayWaiting()
			continue
		case <-ctx.Done():
			return nil
		case <-end:
		}
		break
	}
	all := &misnamedError{}
	for _, v := range s.servers {
		if v.hasStarted() && v.misnamed != nil {
			all.problems = append(all.problems, v.misnamed.problems...)
		}
	}
	if len(all.problems) > 0 {
		return all
	}
	s.sayBegin()
	return nil
}

// sayWaiting says which servers have not started yet.
func (s *storm) sayWaiting() {
	var names []string
	longest := time.Duration(0)
	for _, v := range s.servers {
		if !v.hasStarted() {
			names = append(names, v.name)
			longest = max(longest, v.startTimeout())
		}
	}
	if len(names) > 0 {
		s.opts.Progress(Step{Text: fmt.Sprintf("waiting for %s (up to %v; Options.StartTimeout shortens it)", strings.Join(names, ", "), longest.Round(time.Second))})
	}
}

// sayBegin says that the storm begins, and for which servers.
func (s *storm) sayBegin() {
	ready := 0
	var failed, late []string
	for _, v := range s.servers {
		switch {
		case !v.hasStarted():
			late = append(late, v.name)
		case v.hasFailed():
			failed = append(failed, v.name)
		default:
			ready++
		}
	}
	if ready+len(late) == 0 {
		return
	}
	text := fmt.Sprintf("a storm of %v for copies of %s", s.opts.Duration, display.Count(ready, "server"))
	if len(failed) > 0 {
		text += "; did not start: " + strings.Join(failed, ", ")
	}
	if len(late) > 0 {
		text += "; later, when ready: " + strings.Join(late, ", ")
	}
	s.opts.Progress(Step{Text: text})
}

// report is read when everything has ended.
func (s *storm) report(canceled bool) Report {
	r := Report{Schema: ReportSchema, Seed: s.opts.Seed, Took: time.Since(s.began)}
	for _, v := range s.servers {
		r.Servers = append(r.Servers, v.report(s.events, canceled))
	}
	return r
}
