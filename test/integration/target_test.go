//go:build linux

package integration

import (
	"fmt"
	"maps"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// target is one server of a storm.
type target struct {
	spec mcpvisor.ServerSpec
	dir  string // the StateDir of its script
	web  *mcptest.HTTPServer
	// lists is what its lists must hold, as listed.texts has them. awaitStarted sets it.
	lists [4]string
	// marked: its lists carry the number of the incarnation.
	marked bool
	// noNotifications: the server has no stream, so it sends neither notifications nor
	// requests.
	noNotifications bool
	// faultFree: no fault is injected. churned: it is registered and unregistered all
	// the time. synced: Apply replaces it all the time. garbling: its script breaks its own
	// answers. narrow: its limits are so low that calls queue and are refused. bounded: its
	// policy gives up; the storm restarts it only when it is evicted. abandoned: callers give up
	// its calls all the time, so that late answers meet other calls.
	faultFree, churned, synced, garbling, narrow, bounded, abandoned bool
	grandchildren                                                    int
}

func (t *target) name() string { return t.spec.Name }

// overHTTP reports whether an answer may be lost or broken on the way.
func (t *target) overHTTP() bool { return t.web != nil }

// addEvidence adds the counts and properties of the target to the evidence.
func (t *target) addEvidence(ev *evidence) {
	maps.Copy(ev.executions, mcptest.Executions(t.dir))
	ev.processes[t.name()] = t.spec.Stdio != nil
	ev.inMemory[t.name()] = t.spec.InMemory != nil || t.spec.Transport != nil
	ev.overHTTP[t.name()] = t.overHTTP() || t.garbling
	ev.faultFree[t.name()] = t.faultFree
	ev.synced[t.name()] = t.synced
	if t.narrow {
		ev.narrow[t.name()] = true
	}
	if t.bounded {
		ev.bounded[t.name()] = t.spec.Policy
	}
}

// persistent is a restart policy that never evicts a server during a storm.
var persistent = supervisor.Retry(supervisor.Unlimited, 5*time.Millisecond,
	supervisor.WithMaxDelay(80*time.Millisecond), supervisor.WithStableAfter(100*time.Millisecond), supervisor.WithJitter(0.5))

// evicting gives up after few attempts, and parking tries again after a while. No session of a
// storm is long enough to give the attempts back.
var (
	evicting = supervisor.Retry(2, 5*time.Millisecond, supervisor.WithStableAfter(time.Minute))
	parking  = supervisor.Retry(1, 5*time.Millisecond, supervisor.WithStableAfter(time.Minute), supervisor.WithParking(60*time.Millisecond))
)

// webTargets are the names of the targets over HTTP.
var webTargets = []string{"web", "modern", "silent", "sse"}

// The limits of the narrow target.
const (
	narrowInFlight = 2
	narrowQueued   = 3
)

// markText precedes the number of the incarnation in what a marked target lists.
const markText = " of incarnation "

// markedScript returns a script whose four lists carry the number of the incarnation. variant
// is part of them, too.
func markedScript(s mcptest.Script, variant string) mcptest.Script {
	mark := variant + markText + "{start}."
	s.Tools, s.Resources = mcptest.DefaultTools(), mcptest.DefaultResources()
	s.Templates, s.Prompts = mcptest.DefaultTemplates(), mcptest.DefaultPrompts()
	for i := range s.Tools {
		s.Tools[i].Description += mark
	}
	for i := range s.Resources {
		s.Resources[i].Name += mark
	}
	for i := range s.Templates {
		s.Templates[i].Name += mark
	}
	for i := range s.Prompts {
		s.Prompts[i].Description += mark
	}
	return s
}

// targets returns one server of each kind.
func targets(w *fixture) []*target {
	newTarget := func(name string, script mcptest.Script, kind func(*target, mcptest.Script)) *target {
		t := &target{dir: w.t.TempDir(), marked: true}
		t.spec = mcpvisor.ServerSpec{Name: name, Policy: persistent,
			// It bounds a start that is given up, too, and starts are slow on a busy machine.
			Timeouts: mcpvisor.Timeouts{Shutdown: time.Second}}
		script.StateDir = t.dir
		kind(t, markedScript(script, ""))
		return t
	}
	process := func(t *target, s mcptest.Script) { t.spec.Stdio = w.stdio(s) }
	routine := func(t *target, s mcptest.Script) { t.spec.InMemory = mcptest.InMemory(s) }
	custom := func(t *target, s mcptest.Script) { t.spec.Transport = remoteTransport(mcptest.InMemory(s)) }
	web := func(opts ...mcptest.HTTPOption) func(*target, mcptest.Script) {
		return func(t *target, s mcptest.Script) {
			// A session may outlive a server over HTTP, so its lists are the same each time.
			t.web, t.marked = mcptest.NewHTTP(mcptest.Script{StateDir: s.StateDir}, opts...), false
			w.t.Cleanup(t.web.Close)
			t.spec.HTTP = &mcpvisor.HTTP{URL: t.web.URL}
		}
	}
	faultFree := func(t *target) *target { t.faultFree = true; return t }
	churned := func(t *target) *target { t.churned = true; return t }
	with := func(t *target, change func(*target)) *target { change(t); return t }
	starting := func(faults ...mcptest.Fault) mcptest.Script {
		for i := range faults {
			faults[i].At = mcptest.StageStart
		}
		return mcptest.Script{Faults: faults}
	}

	family := newTarget("family", starting(mcptest.Fault{Do: mcptest.ActionIgnoreShutdown}, mcptest.Fault{Do: mcptest.ActionForkGrandchild}), process)
	family.grandchildren = 1
	daemons := newTarget("daemons", starting(mcptest.Fault{Do: mcptest.ActionForkGrandchild, Text: "detached"}), process)
	daemons.grandchildren = 1
	// Only probes notice that this server is stopped by SIGSTOP.
	probed := newTarget("probed", mcptest.Script{}, process)
	probed.spec.Probe = mcpvisor.Probe{Interval: 50 * time.Millisecond, Timeout: 200 * time.Millisecond, Failures: 2}

	// This server breaks its own answers. Some of its incarnations also stop reading,
	// or close stdout.
	at := func(do mcptest.Action, stage mcptest.Stage, nth int, starts ...int) mcptest.Fault {
		return mcptest.Fault{At: stage, Do: do, Nth: nth, Starts: starts, Count: 500}
	}
	garbling := newTarget("sloppy", mcptest.Script{Faults: []mcptest.Fault{
		at(mcptest.ActionJunk, mcptest.StageCall, 2), at(mcptest.ActionHalfLine, mcptest.StageAnswer, 5), at(mcptest.ActionMalformed, mcptest.StageCall, 9),
		{At: mcptest.StageCall, Do: mcptest.ActionMalformed, Text: "duplicate", Nth: 11},
		{At: mcptest.StageCall, Do: mcptest.ActionLateAnswer, Nth: 13, Delay: 300 * time.Millisecond},
		at(mcptest.ActionFlood, mcptest.StageCall, 15), {At: mcptest.StageCall, Do: mcptest.ActionStderrFlood, Nth: 17, Bytes: 1 << 20},
		// It executes the tool count and dies before the answer is complete.
		{At: mcptest.StageAnswer, Tool: "count", Do: mcptest.ActionDie, Nth: 2},
		at(mcptest.ActionCloseStdout, mcptest.StageAfter, 20, 1, 4, 7, 10, 13), at(mcptest.ActionHangAll, mcptest.StageAfter, 25, 2, 5, 8, 11, 14)}}, process)
	garbling.spec.Probe = probed.spec.Probe
	garbling.garbling = true

	// A stateless server that answers with JSON has no event stream.
	silent := newTarget("silent", mcptest.Script{}, web(mcptest.WithStateless(), mcptest.WithJSONResponses()))
	silent.noNotifications = true

	narrow := with(newTarget("narrow", mcptest.Script{}, process), func(t *target) {
		t.narrow, t.spec.Limits = true, mcpvisor.Limits{MaxInFlight: narrowInFlight, MaxQueued: narrowQueued}
	})
	bounded := func(t *target, p supervisor.Policy) *target { t.bounded, t.spec.Policy = true, p; return t }

	return []*target{
		newTarget("plain", mcptest.Script{}, process), probed, family, daemons, garbling, narrow,
		newTarget("legacy", mcptest.Script{PageSize: 3, Versions: []string{"2025-06-18"}}, process),
		newTarget("memory", mcptest.Script{}, routine), newTarget("custom", mcptest.Script{}, custom),
		newTarget("web", mcptest.Script{}, web()),
		with(newTarget("sse", mcptest.Script{}, web(mcptest.WithSSE())), func(t *target) { t.abandoned = true }),
		newTarget("modern", mcptest.Script{}, web(mcptest.WithStateless())), silent,
		with(newTarget("spare", mcptest.Script{}, process), func(t *target) { t.spec.Standby = true }),
		bounded(newTarget("evicted", mcptest.Script{}, process), evicting), bounded(newTarget("parked", mcptest.Script{}, routine), parking),
		churned(newTarget("coming", mcptest.Script{}, process)), churned(newTarget("going", mcptest.Script{}, routine)),
		with(newTarget("synced", mcptest.Script{}, process), func(t *target) { t.synced = true }),
		faultFree(newTarget("unharmed", mcptest.Script{}, process)), faultFree(newTarget("quiet", mcptest.Script{}, routine)),
	}
}

// variant returns the spec of the synced target with lists of their own.
func (t *target) variant(w *fixture, n int) mcpvisor.ServerSpec {
	spec := t.spec.Clone()
	spec.Stdio = w.stdio(markedScript(mcptest.Script{StateDir: t.dir}, variantOf(n)))
	return spec
}

const variantText = " Variant "

func variantOf(n int) string { return fmt.Sprint(variantText, n) }
