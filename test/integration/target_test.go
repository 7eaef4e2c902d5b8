//go:build linux

package integration

import (
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
	// tools is the number of tools in its whole catalog.
	tools int
	// noNotifications: the server has no stream, so it sends neither notifications nor
	// requests.
	noNotifications bool
	// faultFree: no fault is injected. churned: it is registered and unregistered all
	// the time. garbling: its script breaks its own answers.
	faultFree, churned, garbling bool
	grandchildren                int
}

func (t *target) name() string { return t.spec.Name }

// addEvidence adds the counts and properties of the target to the evidence.
func (t *target) addEvidence(ev *evidence) {
	maps.Copy(ev.executions, mcptest.Executions(t.dir))
	ev.processes[t.name()] = t.spec.Stdio != nil
	ev.inMemory[t.name()] = t.spec.InMemory != nil
	ev.overHTTP[t.name()] = t.web != nil || t.garbling
	ev.faultFree[t.name()] = t.faultFree
}

// persistent is a restart policy that never evicts a server during a storm.
var persistent = supervisor.Retry(supervisor.Unlimited, 5*time.Millisecond,
	supervisor.WithMaxDelay(80*time.Millisecond), supervisor.WithStableAfter(100*time.Millisecond), supervisor.WithJitter(0.5))

// webTools is the number of default tools over HTTP, where those that need streams are
// left out.
const webTools = 16

// webTargets are the names of the targets over HTTP.
var webTargets = []string{"web", "modern", "silent"}

// targets returns one server of each kind.
func targets(w *fixture) []*target {
	all := len(mcptest.DefaultTools())
	newTarget := func(name string, script mcptest.Script, kind func(*target, mcptest.Script)) *target {
		t := &target{dir: w.t.TempDir(), tools: all}
		t.spec = mcpvisor.ServerSpec{Name: name, Policy: persistent,
			Timeouts: mcpvisor.Timeouts{Shutdown: 200 * time.Millisecond}}
		script.StateDir = t.dir
		kind(t, script)
		return t
	}
	process := func(t *target, s mcptest.Script) { t.spec.Stdio = w.stdio(s) }
	routine := func(t *target, s mcptest.Script) { t.spec.InMemory = mcptest.InMemory(s) }
	web := func(opts ...mcptest.HTTPOption) func(*target, mcptest.Script) {
		return func(t *target, s mcptest.Script) {
			t.web = mcptest.NewHTTP(s, opts...)
			w.t.Cleanup(t.web.Close)
			t.spec.HTTP, t.tools = &mcpvisor.HTTP{URL: t.web.URL}, webTools
		}
	}
	faultFree := func(t *target) *target { t.faultFree = true; return t }
	churned := func(t *target) *target { t.churned = true; return t }

	family := newTarget("family", mcptest.Script{Faults: []mcptest.Fault{
		{At: mcptest.StageStart, Do: mcptest.ActionIgnoreShutdown}, {At: mcptest.StageStart, Do: mcptest.ActionForkGrandchild}}}, process)
	family.grandchildren = 1
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
		{At: mcptest.StageCall, Do: mcptest.ActionMalformed, Text: mcptest.MalformedDuplicate, Nth: 11},
		{At: mcptest.StageCall, Do: mcptest.ActionLateAnswer, Nth: 13, Delay: 300 * time.Millisecond},
		at(mcptest.ActionFlood, mcptest.StageCall, 15), {At: mcptest.StageCall, Do: mcptest.ActionStderrFlood, Nth: 17, Bytes: 1 << 20},
		at(mcptest.ActionCloseStdout, mcptest.StageAfter, 20, 1, 4, 7, 10, 13), at(mcptest.ActionHangAll, mcptest.StageAfter, 25, 2, 5, 8, 11, 14)}}, process)
	garbling.spec.Probe = probed.spec.Probe
	garbling.garbling = true

	// A stateless server that answers with JSON has no event stream.
	silent := newTarget("silent", mcptest.Script{}, web(mcptest.WithStateless(), mcptest.WithJSONResponses()))
	silent.noNotifications = true

	return []*target{
		newTarget("plain", mcptest.Script{}, process), probed, family, garbling,
		newTarget("legacy", mcptest.Script{PageSize: 3, Versions: []string{mcptest.Version20250618}}, process),
		newTarget("memory", mcptest.Script{}, routine),
		newTarget("web", mcptest.Script{}, web()),
		newTarget("modern", mcptest.Script{}, web(mcptest.WithStateless())), silent,
		churned(newTarget("coming", mcptest.Script{}, process)), churned(newTarget("going", mcptest.Script{}, routine)),
		faultFree(newTarget("unharmed", mcptest.Script{}, process)), faultFree(newTarget("quiet", mcptest.Script{}, routine)),
	}
}
