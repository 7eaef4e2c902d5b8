//go:build linux

package integration

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/facade"
)

// callers is the number of goroutines that call the servers with injected faults.
const callers = 6

// harmlessTools are tools that do not change a server; one that is listed several times
// is called more often. allTools adds tools that change the list of tools; only servers
// with injected faults get those calls.
var (
	harmlessTools = []string{"echo", "echo", "echo", "pid", "pid", "pid", "count", "count", "sleep", "read", "prompt",
		"consult", "consult", "slow_progress", "touch", "log"}
	allTools = append(slices.Clone(harmlessTools), "add_tool", "remove_tool")
)

// callFaulty calls random tools of random servers with injected faults, registered or
// not, until ctx ends.
func (s *storm) callFaulty(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		target := s.targets[r.IntN(len(s.targets))]
		if target.faultFree {
			continue
		}
		tool := allTools[r.IntN(len(allTools))]
		if target.noNotifications && (tool == "consult" || tool == "slow_progress") {
			tool = "echo"
		}
		rec := s.callOnce(r, target, tool)
		switch {
		case rec.err != nil && rec.ended.Sub(rec.began) < 5*time.Millisecond:
			pause(ctx, 5*time.Millisecond) // an immediate answer: the server is down
		default:
			pause(ctx, time.Millisecond)
		}
	}
}

func (s *storm) callOnce(r *rand.Rand, target *target, tool string) *record {
	timeout := time.Duration(100+r.IntN(400)) * time.Millisecond
	switch r.IntN(4) {
	case 0: // the caller cancels after a moment
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		after := time.Duration(r.IntN(15)) * time.Millisecond
		stop := time.AfterFunc(after, cancel)
		defer stop.Stop()
		return s.calls.call(ctx, s.c, target.name(), tool, after)
	case 1: // the caller waits until the server is ready
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return s.calls.call(ctx, s.c, target.name(), tool, timeout, facade.WithWaitReady())
	default:
		return s.calls.call(context.Background(), s.c, target.name(), tool, timeout, facade.WithTimeout(timeout))
	}
}

// abandon calls one tool of a server and gives every second call up after a moment, until ctx ends.
func (s *storm) abandon(ctx context.Context, r *rand.Rand, target *target, tool string) {
	for givesUp := false; ctx.Err() == nil; givesUp = !givesUp {
		limit := time.Second
		if givesUp {
			limit = time.Duration(r.IntN(15)) * time.Millisecond
		}
		calling, cancel := context.WithTimeout(context.Background(), limit)
		s.calls.call(calling, s.c, target.name(), tool, limit)
		cancel()
		pause(ctx, time.Millisecond)
	}
}

// callFaultFree calls the servers without injected faults until ctx ends. No call may
// fail.
func (s *storm) callFaultFree(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		for _, target := range s.targets {
			if target.faultFree {
				s.calls.call(context.Background(), s.c, target.name(), harmlessTools[r.IntN(len(harmlessTools))], maxWait)
			}
		}
		pause(ctx, time.Millisecond)
	}
}
