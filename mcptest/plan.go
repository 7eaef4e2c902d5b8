package mcptest

import (
	"slices"
	"sync"
)

// armed is a fault of this incarnation and how often its occasion has come.
type armed struct {
	Fault
	mu   sync.Mutex
	seen int
}

// due counts one occasion and says whether it is the one.
func (a *armed) due() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen++
	return a.Nth == 0 || a.Nth == a.seen
}

// plan is the faults of one incarnation by stage. A stage without faults costs
// one map lookup.
type plan map[Stage][]*armed

func newPlan(faults []Fault, start int) plan {
	p := plan{}
	for _, f := range faults {
		if len(f.Starts) == 0 || slices.Contains(f.Starts, start) {
			p[f.At] = append(p[f.At], &armed{Fault: f})
		}
	}
	return p
}

// due returns the faults to commit now, counting the occasion in each of those
// that it concerns.
func (p plan) due(stage Stage, method, target string) []*Fault {
	candidates := p[stage]
	if len(candidates) == 0 {
		return nil
	}
	var out []*Fault
	for _, a := range candidates {
		if a.concerns(stage, method, target) && a.due() {
			out = append(out, &a.Fault)
		}
	}
	return out
}

func (a *armed) concerns(stage Stage, method, target string) bool {
	want := a.Method
	switch stage {
	case StageCall, StageAnswer, StageAfter:
		if want == "" {
			want = "tools/call"
		}
	}
	if want != "" && want != "*" && want != method {
		return false
	}
	return a.Tool == "" || a.Tool == target
}

// stageOf says at which stage a request waits for its answer.
func stageOf(method string) Stage {
	switch method {
	case "server/discover":
		return StageDiscover
	case "initialize":
		return StageInitialize
	case "ping":
		return StagePing
	case "tools/list", "resources/list", "resources/templates/list", "prompts/list":
		return StageList
	}
	return StageCall
}
