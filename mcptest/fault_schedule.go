package mcptest

import (
	"slices"
	"sync"
)

// scheduledFault is a fault of this incarnation, and how often its occasion has
// occurred.
type scheduledFault struct {
	Fault
	mu        sync.Mutex
	occasions int // guarded by mu
}

// isDue counts one occasion and reports whether the fault happens at it.
func (a *scheduledFault) isDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.occasions++
	return a.Nth == 0 || a.Nth == a.occasions
}

// plan holds the faults of one incarnation by stage. A stage without faults costs one
// map lookup.
type plan map[Stage][]*scheduledFault

func newPlan(faults []Fault, start int) plan {
	p := plan{}
	for _, f := range faults {
		if len(f.Starts) == 0 || slices.Contains(f.Starts, start) {
			p[f.At] = append(p[f.At], &scheduledFault{Fault: f})
		}
	}
	return p
}

// due returns the faults to inject now. It counts the occasion in each fault that
// matches.
func (p plan) due(stage Stage, method, target string) []*Fault {
	candidates := p[stage]
	if len(candidates) == 0 {
		return nil
	}
	var out []*Fault
	for _, a := range candidates {
		if a.matches(stage, method, target) && a.isDue() {
			out = append(out, &a.Fault)
		}
	}
	return out
}

// matches reports whether the fault applies to this stage of this request.
func (a *scheduledFault) matches(stage Stage, method, target string) bool {
	want := a.Method
	switch stage {
	case StageCall, StageAnswer, StageAfter:
		if want == "" {
			want = "tools/call"
		}
	default:
	}
	if want != "" && want != "*" && want != method {
		return false
	}
	return a.Tool == "" || a.Tool == target
}

// stageOf returns the stage of a request before its answer.
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
