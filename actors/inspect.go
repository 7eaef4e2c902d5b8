package actors

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// steps are the last inputs of a lifecycle. The supervising actor writes them; any goroutine may read.
type steps struct {
	mu   sync.Mutex
	last []monitor.Step // a ring once it is full; guarded by mu, as next
	next int
}

func (s *steps) add(step monitor.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) < retention.Steps {
		s.last = append(s.last, step)
		return
	}
	s.last[s.next] = step
	s.next = (s.next + 1) % len(s.last)
}

// all returns them, oldest first.
func (s *steps) all() []monitor.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(append([]monitor.Step(nil), s.last[s.next:]...), s.last[:s.next]...)
}

// noteStep records an input that had an effect.
func (s *supervisingActor) noteStep(in lifecycle.Input, before supervisor.State, effects []lifecycle.Effect) {
	step := monitor.Step{Time: time.Now(), Input: string(in.Kind), Epoch: s.lifecycle.Epoch(), From: before, To: s.lifecycle.State(), Cause: shortCause(in.Cause)}
	for _, e := range effects {
		step.Effects = append(step.Effects, string(e.Kind))
	}
	s.stats.steps.add(step)
}

// shortCause is a cause whose texts are bounded: many are kept.
func shortCause(c *supervisor.Cause) *supervisor.Cause {
	if c == nil {
		return nil
	}
	short := c.Clone()
	short.Message, short.Err, short.Stderr = strings.Clone(display.Shorten(c.Error(), retention.StepBytes)), nil, nil
	room := retention.StepBytes
	for _, line := range slices.Backward(c.Stderr) { // the last ones say most
		if room -= len(line); room < 0 {
			break
		}
		short.Stderr = append(short.Stderr, line)
	}
	slices.Reverse(short.Stderr)
	return short
}

// Inspect shows how the supervision of a server came to where it is. ok is false if it is not registered.
func (rt *Runtime) Inspect(server string) (found monitor.Inspection, ok bool) {
	v := rt.Snapshot().Server(server)
	if v == nil {
		return found, false
	}
	found = monitor.Inspection{Server: v.Name, Gen: v.Gen, State: v.State, Steps: v.stats.steps.all(), Inbox: rt.inbox.depth(), Actors: map[string]int{}}
	for i := range found.Steps {
		found.Steps[i].Cause = found.Steps[i].Cause.Clone()
	}
	names := rt.system.ProcessRegistry.LocalPIDs.LocalPIDs[0] // see newActorSystem
	for _, name := range names.Keys() {
		if kind := kindOf(name); kind != "" {
			found.Actors[kind]++
		}
	}
	return found, true
}

// kindOf says what an actor is by its name, which ends in the part that it was spawned with; "" for other processes of the library.
func kindOf(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, kind := range []string{"supervisor-", "port-", "-group-", "-groups.", "-manager."} {
		if at := strings.Index(name, kind); at == 0 || at > 0 && kind[0] == '-' {
			return strings.Trim(kind, "-.")
		}
	}
	if name == "servers" {
		return name
	}
	return ""
}
