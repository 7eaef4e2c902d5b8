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

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

const (
	// callers is how many goroutines make calls.
	callers = 8
	// callEvery is how long each of them waits between its calls, on average.
	callEvery = 20 * time.Millisecond
	// killEvery is how often a server is killed.
	killEvery = time.Second
	// tooLong is the duration from which a call counts as hung, also on a busy machine.
	tooLong = 10 * time.Second
)

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
	random := rand.New(rand.NewPCG(uint64(d.seed), 1))
	seeds := make([]uint64, callers)
	for i := range seeds {
		seeds[i] = random.Uint64()
	}
	end := time.Now().Add(d.storm)
	results := make([][]callRecord, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { results[i] = d.caller(ctx, i, rand.New(rand.NewPCG(seeds[i], 2)), end) })
	}
	kills, err := d.killer(ctx, random, end)
	wg.Wait()
	if err != nil {
		return err
	}
	all := slices.Concat(results...)
	d.summary(all, kills)
	d.checks.check("every call answered exactly once, none executed twice", d.compareExecutions(append(all, d.sideEffects...)))
	d.checks.check("no call hung", checkDurations(all))
	// The server that was killed last becomes ready, too.
	for _, name := range []string{"calc", "files"} {
		if err := d.servers.client.WaitReady(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) caller(ctx context.Context, id int, random *rand.Rand, end time.Time) (out []callRecord) {
	for n := 0; time.Now().Before(end); n++ {
		server := []string{"calc", "files"}[random.IntN(2)]
		o := callRecord{server: server, key: fmt.Sprintf("caller %d call %d", id, n)}
		start := time.Now()
		res, err := d.servers.client.CallTool(ctx, server+"/count", map[string]any{"key": o.key})
		o.took, o.err = time.Since(start), err
		if err == nil {
			o.answer = keyOf(res)
		}
		out = append(out, o)
		if backoff.Sleep(ctx, time.Duration(random.Int64N(int64(2*callEvery)))) != nil {
			break
		}
	}
	return out
}

// keyOf returns the key in a result of the tool count.
func keyOf(res *mcp.CallToolResult) string {
	var v struct{ Key string }
	if json.Unmarshal([]byte(text(res)), &v) != nil {
		return ""
	}
	return v.Key
}

// killer kills the two servers in turn, each when it is ready again.
func (d *demo) killer(ctx context.Context, random *rand.Rand, end time.Time) (kills int, err error) {
	for next := random.IntN(2); ; next++ {
		if time.Until(end) < killEvery {
			return kills, nil
		}
		if err := backoff.Sleep(ctx, killEvery); err != nil {
			return kills, err
		}
		name := []string{"calc", "files"}[next%2]
		if err := d.servers.client.WaitReady(ctx, name); err != nil {
			return kills, err
		}
		if err := kill(d.servers.client, name, func(pid int) { d.p.printFact(bold, "KILL", name, "kill -9 %d", pid) }); err != nil {
			return kills, err
		}
		kills++
	}
}

func (d *demo) summary(all []callRecord, kills int) {
	var ok, unknown, refused int
	var times []time.Duration
	for _, o := range all {
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
	p95 := time.Duration(0)
	if len(times) > 0 {
		p95 = times[len(times)*95/100]
	}
	d.p.printFact(bold, "storm", "", "%d calls, %d kills: %d ok · %d outcome unknown · %d refused at once · p95 %s", len(all), kills, ok, unknown, refused, roundedDuration(p95))
	d.checks.expect("the storm made calls and kills", ok > 0 && kills > 0, "%d calls succeeded, %d kills", ok, kills)
}

// compareExecutions compares the outcomes of calls with what the servers executed.
func (d *demo) compareExecutions(all []callRecord) error {
	return checkExecutions(all, map[string]map[string]int{
		"calc":  mcptest.Executions(d.servers.stateDir("calc")),
		"files": mcptest.Executions(d.servers.stateDir("files")),
		"flaky": mcptest.Executions(d.servers.stateDir("flaky")),
	})
}

// checkExecutions checks that a call that succeeded was executed once and answered
// with its own result, that one of outcome not sent was not executed, and that one
// of unknown outcome was executed at most once.
func checkExecutions(all []callRecord, executed map[string]map[string]int) error {
	calls := 0
	for _, o := range all {
		n := executed[o.server][o.key]
		calls += n
		var e *mcpvisor.Error
		switch {
		case o.err == nil && (n != 1 || o.answer != o.key):
			return fmt.Errorf("%q on %s succeeded, was executed %d times and answered with %q", o.key, o.server, n, o.answer)
		case o.err == nil:
		case !errors.As(o.err, &e):
			return fmt.Errorf("%q on %s ended with an error that is not a mcpvisor.Error: %w", o.key, o.server, o.err)
		case e.Outcome == mcpvisor.OutcomeNotSent && n != 0:
			return fmt.Errorf("the error about %q on %s says not sent, and it was executed %d times", o.key, o.server, n)
		case n > 1:
			return fmt.Errorf("%q on %s was executed %d times", o.key, o.server, n)
		}
	}
	total := 0
	for _, keys := range executed {
		for _, n := range keys {
			total += n
		}
	}
	if total != calls {
		return fmt.Errorf("the servers executed %d calls, of which %d were made", total, calls)
	}
	return nil
}

func checkDurations(all []callRecord) error {
	for _, o := range all {
		if o.took > tooLong {
			return fmt.Errorf("%q on %s took %v", o.key, o.server, o.took)
		}
	}
	return nil
}
