package chaos

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// subject is one server of a Run.
type subject struct {
	s    *storm
	name string
	spec mcpvisor.ServerSpec // of the copy
	mark string              // an environment variable of its processes, as "NAME=value"
	cut  *cutter             // its connections; nil unless it is reached over HTTP
	// remote: Run starts no process of it, and others may use it.
	remote  bool
	started chan struct{} // closed when start has returned

	// Set by newSubject and start, and never changed after it.
	tools    []ToolCall
	notes    []string
	misnamed *misnamedError

	// Owned by the goroutine that starts the server, injects its faults and ends it, then by
	// report.
	injected []Injection
	lists    map[string]string // after the last start
	before   []process         // alive before the last fault
	pid      int               // of the server before the last fault
	findings []Finding

	// calm holds one token for each call that a caller makes, and all while nothing may be
	// called.
	calm chan struct{}

	mu        sync.Mutex
	calls     CallCounts      // guarded by mu
	abandoned map[uint64]bool // epochs that may still answer a call that was given up; guarded by mu
	hung      []string        // guarded by mu
	// failure is the first error of a call that was not canceled, and refusal the text of the
	// first result in which the tool reports an error; guarded by mu
	failure, refusal string
}

// markVar is a variable in the environment of every process of a copy.
const markVar = "MCPVISOR_CHAOS_COPY"

// newSubject makes the spec of a copy.
func newSubject(s *storm, spec mcpvisor.ServerSpec) *subject {
	v := &subject{s: s, name: spec.Name, spec: spec.Clone(), mark: markVar + "=" + rand.Text(),
		abandoned: map[uint64]bool{}, started: make(chan struct{}), calm: make(chan struct{}, callers)}
	v.spec.Policy = supervisor.Retry(3, 50*time.Millisecond, supervisor.WithStableAfter(time.Millisecond))
	v.spec.Standby, v.spec.StartSupervised, v.spec.Probe.Interval = false, false, -1
	v.spec.Timeouts.Shutdown = max(v.spec.WithDefaults().Timeouts.Shutdown, minShutdown)
	switch {
	case v.spec.Stdio != nil:
		if v.spec.Stdio.Env == nil {
			v.spec.Stdio.Env = map[string]string{}
		}
		name, value, _ := strings.Cut(v.mark, "=")
		v.spec.Stdio.Env[name] = value
		// What would be ended with the server is left, so that it is found; end ends it.
		v.spec.Stdio.KeepDaemons = true
		if !searchesProcesses {
			v.notes = append(v.notes, "what it leaves behind was not searched for: that works on Linux only")
		}
	case v.spec.HTTP != nil:
		v.cut, v.remote = newCutter(v.spec.HTTP), true
		v.notes = append(v.notes, "it is reached over HTTP, and others may use it: its session is ended and begun again, and its connections are cut on this side; no kill, no stop, no flood")
	case v.spec.Transport != nil:
		v.remote = true
		v.notes = append(v.notes, fmt.Sprintf("it is reached over a transport of kind %q, and others may use it: its session is ended and begun again; no kill, no stop, no flood", v.spec.TransportKind()))
	}
	return v
}

// find records a finding, or counts one more of its kind.
func (v *subject) find(f Finding) {
	v.s.opts.Progress(Step{Server: v.name, Finding: f.Kind, Text: f.Text})
	for i := range v.findings {
		if v.findings[i].Kind == f.Kind {
			v.findings[i].Count++
			return
		}
	}
	f.Count = 1
	v.findings = append(v.findings, f)
}

// findText is find for a finding that is a text.
func (v *subject) findText(kind FindingKind, format string, args ...any) {
	v.find(Finding{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// hasStarted reports whether start has returned. Only then its results may be read.
func (v *subject) hasStarted() bool {
	select {
	case <-v.started:
		return true
	default:
		return false
	}
}

// hasFailed reports whether the first start failed. start must have returned.
func (v *subject) hasFailed() bool {
	return slices.ContainsFunc(v.findings, func(f Finding) bool { return f.Kind == FindingNotStarted })
}

// startTimeout is how long a start may take, discovery included.
func (v *subject) startTimeout() time.Duration {
	if v.s.opts.StartTimeout > 0 {
		return v.s.opts.StartTimeout
	}
	timeouts := v.spec.WithDefaults().Timeouts
	if timeouts.Start < 0 {
		timeouts.Start = defaults.StartTimeout
	}
	if timeouts.List < 0 {
		timeouts.List = defaults.ListTimeout
	}
	return timeouts.Start + timeouts.List
}

// startSlack is what the end of a start may need beyond its timeouts, whose error says more.
const startSlack = 5 * time.Second

// start registers the server, and records what it offers.
func (v *subject) start(ctx context.Context) {
	bound := v.startTimeout()
	if v.s.opts.StartTimeout <= 0 {
		bound += startSlack
	}
	starting, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	switch err := v.s.c.Register(starting, v.spec); {
	case err == nil:
	case ctx.Err() != nil:
		return // report says so
	case starting.Err() != nil:
		v.find(Finding{Kind: FindingNotStarted, Text: fmt.Sprintf("it was not ready after %v", bound), Stderr: v.stderr(), Hint: "raise Options.StartTimeout if it is slow to start"})
		return
	default:
		v.find(startFinding(err))
		return
	}
	v.lists = v.settled(ctx, nil)
	for _, call := range v.s.opts.Tools {
		if call.server() == v.name {
			v.tools = append(v.tools, call)
		}
	}
	if v.misnamed = checkListed(ctx, v.s.c, v.name, v.tools); v.misnamed != nil {
		return
	}
	if len(v.tools) == 0 {
		if v.tools = readOnlyTools(v.s.c, v.name); len(v.tools) == 0 {
			v.notes = append(v.notes, "no tool was called: none says that it is read-only and takes arguments that can be derived; name one, with its arguments")
			v.refresh(ctx)
		}
	}
	v.checkUnasked(ctx)
}

// startFinding is the finding about a start that failed.
func startFinding(err error) Finding {
	f := Finding{Kind: FindingNotStarted, Text: err.Error()}
	if e := (*mcpvisor.Error)(nil); errors.As(err, &e) {
		short := *e
		short.Op, short.Stderr, short.Hint, short.Outcome = "", nil, "", mcpvisor.OutcomeNone
		f.Text, f.Stderr, f.Hint = short.Error(), e.Stderr, e.Hint
	}
	return f
}

// stderr is what the process of the server has written to stderr.
func (v *subject) stderr() []string {
	st, _ := v.s.c.ServerStatus(v.name)
	switch {
	case st.LastCause != nil:
		return st.LastCause.Stderr
	case st.Session != nil:
		return st.Session.Stderr
	}
	return nil
}

// storm injects faults for the duration, and makes calls meanwhile.
func (v *subject) storm(ctx context.Context) {
	storming, stop := context.WithTimeout(ctx, v.s.opts.Duration)
	defer stop()
	var calling sync.WaitGroup
	for n := range v.callers() {
		calling.Go(func() { v.call(ctx, storming, random(v.s.opts.Seed, fmt.Sprint("caller ", n, " of ", v.name))) })
	}
	v.injected = Inject(storming, v.s.opts.Seed, Target{Server: v.name, Faults: v.faults(ctx), MaxPause: v.maxPause(),
		After: func(i Injection) bool { return v.after(ctx, i) }})
	stop()
	calling.Wait()
}

// calmCalls is how many calls checkUnasked makes, and calmTime how long it waits for what may
// follow their answers.
const (
	calmCalls = 3
	calmTime  = 20 * time.Millisecond
)

// checkUnasked makes a few calls one after another while nothing else is called, and looks for
// answers that none of them waited for. It finds nothing out about an incarnation that may still
// answer a call which was given up.
func (v *subject) checkUnasked(ctx context.Context) {
	if len(v.tools) == 0 {
		return
	}
	for range cap(v.calm) {
		v.calm <- struct{}{}
		defer func() { <-v.calm }()
	}
	before, ok := v.s.c.ServerStatus(v.name)
	if !ok || before.Session == nil {
		return
	}
	for range calmCalls {
		if v.callOnce(ctx, false, 0, v.tools[0]) != nil {
			return
		}
	}
	pause(ctx, calmTime)
	after, ok := v.s.c.ServerStatus(v.name)
	v.mu.Lock()
	abandoned := v.abandoned[after.Epoch]
	v.mu.Unlock()
	if !ok || after.Session == nil || after.Epoch != before.Epoch || abandoned {
		return
	}
	if n := after.Session.Discarded.Unmatched - before.Session.Discarded.Unmatched; n > 0 {
		v.findText(FindingUnasked, "%s came beside the answers to %d calls", display.Count(n, "message"), calmCalls)
	}
}

// settled returns the lists when they are want, or, with nil, when they have not changed for a
// moment. It waits at most settleTime.
func (v *subject) settled(ctx context.Context, want map[string]string) map[string]string {
	last, since := Lists(v.s.c, v.name), time.Now()
	for began := since; time.Since(began) < settleTime && ctx.Err() == nil; {
		if want != nil && difference(want, last) == "" || want == nil && time.Since(since) >= quietTime {
			break
		}
		pause(ctx, 10*time.Millisecond)
		if now := Lists(v.s.c, v.name); difference(last, now) != "" {
			last, since = now, time.Now()
		}
	}
	return last
}

// maxPause is the longest pause between two faults.
func (v *subject) maxPause() time.Duration {
	if v.remote {
		return 4 * time.Second
	}
	return 600 * time.Millisecond
}

func (v *subject) callers() int {
	if v.remote {
		return 1
	}
	return callers
}

// faults returns the faults of the server. Each records the processes before it. ctx is that of
// the run, which lasts longer than the one that a fault is given.
func (v *subject) faults(ctx context.Context) []Fault {
	faults := Faults(v.s.c, v.name)
	switch {
	case v.cut != nil:
		faults = append(faults, Fault{Name: FaultCut, Inject: func(context.Context, *mathrand.Rand) (int, bool) { return 0, v.cut.cut() }})
	case !v.remote && len(v.tools) > 0:
		faults = append(faults, Fault{Name: FaultFlood, Inject: func(_ context.Context, r *mathrand.Rand) (int, bool) { return 0, v.flood(ctx, r) }})
	}
	for i := range faults {
		inject := faults[i].Inject
		faults[i].Inject = func(ctx context.Context, r *mathrand.Rand) (int, bool) {
			st, ok := v.s.c.ServerStatus(v.name)
			if !ok || st.State != supervisor.StateReady {
				return 0, false
			}
			v.pid, v.before = st.Session.PID, processesOf(v.mark)
			v.s.opts.Progress(Step{Server: v.name, Fault: faults[i].Name, Text: faults[i].Name})
			return inject(ctx, r)
		}
	}
	return faults
}

// after checks what followed a fault. It returns false if the server has not come back, or ctx
// has ended.
func (v *subject) after(ctx context.Context, i Injection) bool {
	ends := i.Fault == FaultKill || i.Fault == FaultStopKill || i.Fault == FaultRestart
	if i.Fault == FaultRestart {
		v.watchEnd(ctx)
	}
	bound := v.spec.Timeouts.Shutdown + max(v.startTimeout(), 2*time.Second)
	notice := time.AfterFunc(patience, func() {
		v.s.opts.Progress(Step{Server: v.name, Text: fmt.Sprintf("waiting for its return after %s (up to %v; Options.StartTimeout shortens it)", i.Fault, bound.Round(time.Second))})
	})
	defer notice.Stop()
	waiting, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := v.s.c.WaitReady(waiting, v.name)
	for ; err == nil && ends && v.pid != 0 && v.currentPID() == v.pid; err = v.s.c.WaitReady(waiting, v.name) {
		pause(waiting, time.Millisecond) // the client has not noticed yet
		if waiting.Err() != nil {
			break
		}
	}
	notice.Stop()
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		st, _ := v.s.c.ServerStatus(v.name)
		f := Finding{Kind: FindingNotRestarted, Text: fmt.Sprintf("after %s it is %s: ", i.Fault, st.State)}
		switch c := st.LastCause; {
		case waiting.Err() != nil:
			f.Text += fmt.Sprintf("it was not ready after %v", bound)
			f.Stderr = v.stderr()
		case c != nil:
			f.Text += c.Error()
			f.Stderr = c.Stderr
		default:
			f.Text += err.Error()
		}
		v.find(f)
		return false
	case !ends:
		return true
	}
	v.checkLeft()
	v.checkUnasked(ctx)
	lists := v.settled(ctx, v.lists)
	if text := difference(v.lists, lists); text != "" && v.isReady() && ctx.Err() == nil {
		v.findText(FindingListsDiffer, "after %s they differ: %s", i.Fault, text)
		v.lists = lists
	}
	return ctx.Err() == nil
}

func (v *subject) isReady() bool {
	st, ok := v.s.c.ServerStatus(v.name)
	return ok && st.State == supervisor.StateReady
}

func (v *subject) currentPID() int {
	if st, ok := v.s.c.ServerStatus(v.name); ok && st.Session != nil {
		return st.Session.PID
	}
	return 0
}

// watchEnd watches a polite end of the server: its stdin is closed. A child that runs on after
// the server has exited would outlive it; the client ends the group only later.
func (v *subject) watchEnd(ctx context.Context) {
	main := slices.IndexFunc(v.before, func(p process) bool { return p.pid == v.pid })
	if main < 0 || len(v.before) == 1 {
		return
	}
	for until := time.Now().Add(v.spec.Timeouts.Shutdown); v.before[main].alive(); pause(ctx, 10*time.Millisecond) {
		if time.Now().After(until) || ctx.Err() != nil {
			return
		}
	}
	pause(ctx, leftGrace)
	if ctx.Err() == nil {
		v.findLeft()
	}
}

// checkLeft ends what has outlived an incarnation, after a moment in which it may end by
// itself.
func (v *subject) checkLeft() {
	alive := func(p process) bool { return p.alive() }
	for until := time.Now().Add(leftGrace); slices.ContainsFunc(v.before, alive) && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	v.findLeft()
	for _, p := range v.before {
		p.kill()
	}
}

// findLeft records the processes of the last incarnation that are alive.
func (v *subject) findLeft() {
	left := 0
	for _, p := range v.before {
		if p.alive() {
			left++
		}
	}
	if left > 0 {
		v.findText(FindingLeftBehind, "%d of them ran on after the server had ended", left)
	}
}

// end unregisters the server, and ends what is left of it.
func (v *subject) end() {
	defer func() {
		for _, p := range processesOf(v.mark) {
			p.kill()
		}
	}()
	if _, registered := v.s.c.ServerStatus(v.name); !registered {
		return
	}
	v.pid, v.before = v.currentPID(), processesOf(v.mark)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { v.watchEnd(ctx) })
	err := v.s.c.Unregister(ctx, v.name)
	watching.Wait()
	if err != nil && !errors.Is(err, mcpvisor.ErrUnknownServer) { // a start that was canceled undoes its registration
		v.findText(FindingLeftBehind, "%v", err)
	}
	v.checkLeft()
}

// report returns the report of the server, when everything has ended. canceled says that the
// run was.
func (v *subject) report(events []mcpvisor.Event, canceled bool) ServerReport {
	r := ServerReport{Server: v.name, Transport: v.spec.TransportKind(), Notes: v.notes, Calls: v.calls, Faults: map[string]int{}}
	for _, i := range v.injected {
		r.Faults[i.Fault]++
	}
	for _, call := range v.tools {
		r.Tools = append(r.Tools, call.Tool)
	}
	events = slices.DeleteFunc(slices.Clone(events), func(e mcpvisor.Event) bool { return e.Server != v.name })
	noticed, ready := Recovery(v.injected, events)
	r.Noticed, r.Ready = timesOf(noticed), timesOf(ready)
	v.findDeaths(events)
	for _, text := range v.hung {
		v.findText(FindingCallsHung, "%s", text)
	}
	if answered := v.calls.OK > v.calls.ToolErrors; len(v.findings) == 0 && (!answered || canceled && len(v.injected) == 0) {
		v.find(v.unanswered(canceled))
	}
	r.Findings, r.Passed = v.findings, len(v.findings) == 0
	return r
}

// unanswered is the finding about a server none of whose calls had a result without an error.
func (v *subject) unanswered(canceled bool) Finding {
	failed := 0
	for _, n := range v.calls.Failed {
		failed += n
	}
	f := Finding{Kind: FindingNoAnswer, Hint: "name calls that work in Options.Tools"}
	switch {
	case canceled:
		return Finding{Kind: FindingNotTested, Text: "canceled before its storm"}
	case v.calls.ToolErrors > 0:
		f.Text = fmt.Sprintf("%s had a result, and each is an error of the tool; the first: %s", display.Count(v.calls.ToolErrors, "call"), v.refusal)
	case failed > 0:
		f.Text = fmt.Sprintf("%s failed, and none had a result; the first: %s", display.Count(failed, "call"), v.failure)
	default:
		f.Text = "no call was made"
	}
	return f
}

// findDeaths finds incarnations that ended without a fault that ends them. A connection over
// HTTP is cut by faults.
func (v *subject) findDeaths(events []mcpvisor.Event) {
	pid := 0
	for _, e := range events {
		switch {
		case e.Kind == mcpvisor.EventReady:
			pid = e.PID
		case e.Kind != mcpvisor.EventDown || e.Cause == nil || v.cut != nil, e.Cause.Asked():
		case !slices.ContainsFunc(v.injected, func(i Injection) bool {
			return pid != 0 && i.PID == pid && (i.Fault == FaultKill || i.Fault == FaultStopKill)
		}):
			v.find(Finding{Kind: FindingDied, Text: e.Cause.Error(), Stderr: e.Cause.Stderr})
		}
	}
}

// call makes calls until storming ends. A call that is under way then ends by itself, or with
// ctx, which lasts longer.
func (v *subject) call(ctx, storming context.Context, r *mathrand.Rand) {
	rest := 20 * time.Millisecond
	if v.remote {
		rest = 400 * time.Millisecond
	}
	for storming.Err() == nil {
		if len(v.tools) == 0 { // the lists are the only calls that certainly change nothing
			v.refresh(ctx)
			pause(storming, 5*rest)
			continue
		}
		cancels, after, tool := r.IntN(8) == 0, time.Duration(r.IntN(20))*time.Millisecond, v.tools[r.IntN(len(v.tools))]
		v.calm <- struct{}{}
		err := v.callOnce(ctx, cancels, after, tool)
		<-v.calm
		if err != nil {
			pause(storming, 5*rest) // the server is down
		}
		pause(storming, rest/4+time.Duration(r.Int64N(int64(rest))))
	}
}

// refresh reads the lists, and counts that as a call.
func (v *subject) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, v.s.opts.CallTimeout)
	defer cancel()
	v.count(v.s.c.Refresh(ctx, v.name), nil, false)
}

// callOnce makes one call, counts how it ended, and returns its error. If cancels is set, it is
// canceled after a while.
func (v *subject) callOnce(ctx context.Context, cancels bool, after time.Duration, call ToolCall) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bound := v.s.opts.CallTimeout
	if cancels {
		defer time.AfterFunc(after, cancel).Stop()
		bound = after
	}
	began := time.Now()
	res, err := v.s.c.CallTool(ctx, call.Tool, call.Arguments, facade.WithTimeout(v.s.opts.CallTimeout))
	if took := time.Since(began); took > bound+hungSlack {
		v.mu.Lock()
		v.hung = append(v.hung, fmt.Sprintf("%s took %v and was bounded by %v", call.Tool, took.Round(time.Millisecond), bound))
		v.mu.Unlock()
	}
	v.count(err, res, cancels)
	return err
}

// count counts one call by how it ended. res is nil if err is not, or without a tool.
func (v *subject) count(err error, res *mcp.CallToolResult, canceled bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.calls.OK++
		if res != nil && res.IsError {
			v.calls.ToolErrors++
			v.refusal = cmp.Or(v.refusal, textOf(res))
		}
		return
	}
	if !canceled {
		v.failure = cmp.Or(v.failure, err.Error())
	}
	key := "failed"
	if e := (*mcpvisor.Error)(nil); errors.As(err, &e) {
		key = string(e.Kind) + " " + string(e.Outcome)
		if e.Outcome == mcpvisor.OutcomeUnknown { // also a restart gives up calls that the server may still answer
			v.abandoned[e.Epoch] = true
		}
	}
	if v.calls.Failed == nil {
		v.calls.Failed = map[string]int{}
	}
	v.calls.Failed[key]++
}

// textOf is the beginning of the first text of a result.
func textOf(res *mcp.CallToolResult) string {
	for _, content := range res.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return display.Shorten(display.Line(text.Text), display.MaxQuoteBytes)
		}
	}
	return "(no text)"
}

// flood makes many calls at once, and cancels half of them after random moments.
func (v *subject) flood(ctx context.Context, r *mathrand.Rand) bool {
	var wg sync.WaitGroup
	for n := range v.s.opts.Flood {
		after, call := time.Duration(r.IntN(50))*time.Millisecond, v.tools[r.IntN(len(v.tools))]
		wg.Go(func() { _ = v.callOnce(ctx, n%2 == 0, after, call) })
	}
	wg.Wait()
	return true
}
