package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

const (
	callers   = 8                     // goroutines that make calls
	callEvery = 20 * time.Millisecond // how long each of them waits between its calls, on average
	killEvery = time.Second           // how often a server is killed
	tooLong   = 10 * time.Second      // from which a call counts as hung, also on a busy machine
)

// stormy are the servers that are called and killed in the storm.
var stormy = []string{"calc", "files"}

// callRecord is how one call of the storm ended.
type callRecord struct {
	server string
	key    string
	answer string // the key in the result
	err    error
	took   time.Duration
}

// runStorm makes calls from many goroutines while servers are killed.
func (d *demo) runStorm(ctx context.Context) error {
	d.p.printFact(bold, "STORM", "", "%v of calls by %d callers to calc and files · one of the two is killed every second", d.storm, callers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := time.Now().Add(d.storm)
	results := make([][]callRecord, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { results[i] = d.caller(ctx, i, end) })
	}
	kills, err := d.killer(ctx, end)
	wg.Wait()
	if err != nil {
		return err
	}
	all := slices.Concat(results...)
	d.summary(all, kills)
	executed := map[string]map[string]int{}
	for _, name := range append(stormy, "flaky") {
		executed[name] = mcptest.Executions(d.servers.stateDir(name))
	}
	d.check("every call answered exactly once, none executed twice", checkExecutions(append(all, d.sideEffects...), executed))
	return d.client.WaitReady(ctx, stormy...) // the server that was killed last becomes ready, too
}

// random returns the random source of one goroutine of the storm.
func (d *demo) random(id int) *rand.Rand { return rand.New(rand.NewPCG(uint64(d.seed), uint64(id))) }

func (d *demo) caller(ctx context.Context, id int, end time.Time) (out []callRecord) {
	random := d.random(id + 1)
	for n := 0; time.Now().Before(end); n++ {
		o := callRecord{server: stormy[random.IntN(2)], key: fmt.Sprintf("caller %d call %d", id, n)}
		start := time.Now()
		res, err := d.client.CallTool(ctx, o.server+"/count", map[string]any{"key": o.key})
		if o.took, o.err = time.Since(start), err; err == nil {
			var answer struct{ Key string }
			_ = json.Unmarshal([]byte(text(res)), &answer)
			o.answer = answer.Key
		}
		out = append(out, o)
		if backoff.Sleep(ctx, time.Duration(random.Int64N(int64(2*callEvery)))) != nil {
			break
		}
	}
	return out
}

// killer kills the two servers in turn, each when it is ready again.
func (d *demo) killer(ctx context.Context, end time.Time) (kills int, err error) {
	for next := d.random(0).IntN(2); time.Until(end) >= killEvery; next++ {
		if err := backoff.Sleep(ctx, killEvery); err != nil {
			return kills, err
		}
		if err := d.client.WaitReady(ctx, stormy[next%2]); err != nil {
			return kills, err
		}
		if err := d.kill(stormy[next%2], "KILL", ""); err != nil {
			return kills, err
		}
		kills++
	}
	return kills, nil
}

func (d *demo) summary(all []callRecord, kills int) {
	var ok, unknown, refused int
	var times []time.Duration
	var longest callRecord
	for _, o := range all {
		if o.took > longest.took {
			longest = o
		}
		var e *mcpvisor.Error
		switch {
		case o.err == nil:
			ok++
			times = append(times, o.took)
		case errors.As(o.err, &e) && e.Outcome == mcpvisor.OutcomeNotSent:
			refused++
		default:
			unknown++
		}
	}
	slices.Sort(times)
	p95 := slices.Concat(times, []time.Duration{0})[len(times)*95/100] // 0 without a time
	d.p.printFact(bold, "storm", "", "%d calls, %d kills: %d ok · %d outcome unknown · %d refused at once · p95 %s", len(all), kills, ok, unknown, refused, roundedDuration(p95))
	d.expect("the storm made calls and kills", ok > 0 && kills > 0, "%d calls succeeded, %d kills", ok, kills)
	d.expect("no call hung", longest.took <= tooLong, "%q on %s took %v", longest.key, longest.server, longest.took)
}
