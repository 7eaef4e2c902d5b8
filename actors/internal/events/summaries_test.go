package events

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// day publishes events with a clock of its own.
type day struct {
	*Hub
	now time.Time
}

func newDay() *day { return &day{NewHub(), time.Date(2026, 7, 28, 8, 0, 0, 0, time.UTC)} }

func (d *day) happens(server string, kind mcpvisor.EventKind, change func(e *mcpvisor.Event)) {
	e := mcpvisor.Event{Kind: kind, Server: server, Gen: 1, Time: d.now}
	if change != nil {
		change(&e)
	}
	d.Publish(e)
}

func exits(e *mcpvisor.Event) {
	e.Cause = &supervisor.Cause{Kind: supervisor.CauseExit, Message: "Error: no database (exit status 1)", Stderr: []string{"starting", "Error: no database"}}
}

// crash is one turn of a crash loop.
func (d *day) crash(server string, pause time.Duration) {
	d.happens(server, mcpvisor.EventDown, exits)
	d.happens(server, mcpvisor.EventRetry, nil)
	d.now = d.now.Add(pause)
	d.happens(server, mcpvisor.EventConnecting, nil)
	d.happens(server, mcpvisor.EventReady, nil)
}

func texts(all []monitor.EventSummary) (lines []string) {
	for _, s := range all {
		lines = append(lines, s.String())
	}
	return lines
}

// What changed since yesterday is one line for each change, although a crash loop has filled the
// events since then.
func TestSummaries_of_a_day(t *testing.T) {
	d := newDay()
	d.happens("loop", mcpvisor.EventRegistered, nil)
	d.happens("files", mcpvisor.EventRegistered, nil)
	d.happens("files", mcpvisor.EventReady, nil)
	began := d.now
	for i := range 3000 {
		switch i {
		case 100:
			d.happens("files", mcpvisor.EventChanged, func(e *mcpvisor.Event) {
				e.Change = &mcpvisor.Change{Tools: mcpvisor.Delta{Added: []string{"files/delete"}}}
			})
		case 200:
			d.happens("web", mcpvisor.EventRegistered, func(e *mcpvisor.Event) { e.Gen = 3 })
		case 300:
			d.happens("db", mcpvisor.EventParked, exits)
		case 400:
			d.happens("mail", mcpvisor.EventAuthRequired, func(e *mcpvisor.Event) {
				e.Cause = &supervisor.Cause{Kind: supervisor.CauseAuth, Message: "the token was refused"}
			})
		case 500:
			d.happens("files", mcpvisor.EventDown, func(e *mcpvisor.Event) {
				e.Cause = &supervisor.Cause{Kind: supervisor.CauseRequested}
			})
			d.happens("files", mcpvisor.EventUnregistered, nil)
			d.now = d.now.Add(time.Second)
			d.happens("files", mcpvisor.EventRegistered, func(e *mcpvisor.Event) { e.Gen = 4 })
		}
		d.crash("loop", 20*time.Second)
	}
	all, dropped := d.Summaries(0)
	require.Zero(t, dropped)
	require.Equal(t, []string{
		"loop registered", "files registered",
		"files changed: tools +1 −0 ~0", "web registered", "db parked, next try in 0s: Error: no database (exit status 1)", "mail waits to be authorized: the token was refused",
		"files registered again, with another specification",
		"loop ended 3000 times; last: Error: no database (exit status 1)",
	}, texts(all))
	last := all[len(all)-1]
	require.Equal(t, began, last.Began)
	require.Equal(t, d.now.Add(-20*time.Second), last.Last.Time)
	require.NotNil(t, last.Ready)
	require.Equal(t, d.now, *last.Ready, "it is ready again")
	require.Equal(t, []string{"starting", "Error: no database"}, last.Last.Cause.Stderr)
}

// What is similar and what is not.
func TestSummaries_fold(t *testing.T) {
	killed := func(e *mcpvisor.Event) { e.Cause = &supervisor.Cause{Kind: supervisor.CauseSignal, Message: "killed"} }
	d := newDay()
	d.crash("a", time.Second)
	d.happens("a", mcpvisor.EventStartFailed, exits)
	d.happens("b", mcpvisor.EventDown, exits)
	d.happens("a", mcpvisor.EventDown, killed)
	d.now = d.now.Add(2 * time.Hour)
	d.crash("a", time.Second)
	d.happens("a", mcpvisor.EventDown, func(e *mcpvisor.Event) { exits(e); e.Gen = 2 })
	all, _ := d.Summaries(0)
	require.Equal(t, []string{
		"a ended 2 times, 1 time before it was ready; last: Error: no database (exit status 1)",
		"b down: Error: no database (exit status 1)", "a down: killed",
		"a down: Error: no database (exit status 1)", "a down: Error: no database (exit status 1)",
	}, texts(all), "another server, another cause, two hours later, another registration")
	require.Nil(t, all[0].Ready)
	require.Nil(t, all[4].Ready)

	d = newDay()
	for i := range 10 {
		d.happens("a", mcpvisor.EventChanged, func(e *mcpvisor.Event) {
			e.Change = &mcpvisor.Change{Tools: mcpvisor.Delta{Added: []string{fmt.Sprint("a/", i%2)}}}
		})
		d.happens("a", mcpvisor.EventStandbyLost, exits)
	}
	d.happens("a", mcpvisor.EventStandby, nil)
	all, _ = d.Summaries(0)
	require.Equal(t, []string{"a changed: tools +1 −0 ~0 (5 times)", "a changed: tools +1 −0 ~0 (5 times)", "a lost its standby: Error: no database (exit status 1) (10 times)"}, texts(all))
	require.NotNil(t, all[2].Ready)
}

// A stop and a failed group have a summary. An end that leads there, and the course of a lazy server, have none.
func TestSummaries_of_planned_ends(t *testing.T) {
	d := newDay()
	planned := func(e *mcpvisor.Event) {
		e.Cause = &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "as planned"}
	}
	for range 3 {
		d.happens("a", mcpvisor.EventReady, nil)
		d.happens("a", mcpvisor.EventAsleep, planned)
		d.happens("a", mcpvisor.EventWaiting, nil)
	}
	d.happens("a", mcpvisor.EventDown, planned)
	d.happens("a", mcpvisor.EventStopped, planned)
	d.happens("a", mcpvisor.EventReady, nil)
	d.happens("web", mcpvisor.EventGroupFailed, planned)
	all, _ := d.Summaries(0)
	require.Equal(t, []string{"a is stopped: as planned", "web has failed: as planned"}, texts(all))
	require.NotNil(t, all[0].Ready)
	require.Nil(t, all[1].Ready)
}

// A reader that follows gets what has changed.
func TestSummaries_after(t *testing.T) {
	d := newDay()
	d.happens("a", mcpvisor.EventRegistered, nil)
	d.happens("b", mcpvisor.EventDown, exits)
	all, _ := d.Summaries(0)
	last := all[1].Updated
	require.EqualValues(t, 2, last)
	d.happens("c", mcpvisor.EventUnregistered, nil)
	unregistered, _ := d.Summaries(last)
	d.happens("c", mcpvisor.EventRegistered, func(e *mcpvisor.Event) { e.Gen = 2 })
	all, _ = d.Summaries(last)
	require.Equal(t, []string{"c registered again, with another specification"}, texts(all))
	require.Equal(t, unregistered[0].Seq, all[0].Seq, "it is the same summary")
	last = all[0].Updated
	d.happens("a", mcpvisor.EventConnecting, nil)
	all, _ = d.Summaries(last)
	require.Empty(t, all)
	d.happens("a", mcpvisor.EventReady, nil)
	all, _ = d.Summaries(last)
	require.Equal(t, []string{"a registered"}, texts(all), "it is ready")
	all, _ = d.Summaries(99)
	require.Len(t, all, 3, "a number of another hub counts as 0")
}

// Whatever one server does, those of others stay; and all of them together are bounded.
func TestSummaries_are_bounded(t *testing.T) {
	d := newDay()
	d.happens("calm", mcpvisor.EventParked, exits)
	for i := range 10 * retention.Summaries {
		d.happens("wild", mcpvisor.EventChanged, func(e *mcpvisor.Event) {
			e.Change = &mcpvisor.Change{Tools: mcpvisor.Delta{Added: []string{fmt.Sprint("wild/", i)}}}
		})
	}
	all, dropped := d.Summaries(0)
	require.Len(t, all, 1+maxOfSort)
	require.EqualValues(t, 10*retention.Summaries-maxOfSort, dropped)
	require.Equal(t, "calm", all[0].Last.Server)

	d = newDay()
	d.happens("calm", mcpvisor.EventParked, exits)
	for i := range retention.Summaries/2 + 10 { // each has two of a sort
		for gen := range uint64(2) {
			d.happens(fmt.Sprint("busy-", i), mcpvisor.EventParked, func(e *mcpvisor.Event) { exits(e); e.Gen = gen })
		}
	}
	all, _ = d.Summaries(0)
	require.Equal(t, "calm", all[0].Last.Server, "who has much loses some of it first")

	d = newDay()
	d.happens("calm", mcpvisor.EventParked, exits)
	for i := range 2 * retention.Summaries {
		d.happens(fmt.Sprint("visitor-", i), mcpvisor.EventDown, func(e *mcpvisor.Event) {
			e.Cause = &supervisor.Cause{Kind: supervisor.CauseExit, Message: strings.Repeat("m", 1<<13), Stderr: slices.Repeat([]string{strings.Repeat("x", 1<<13)}, 30)}
		})
		require.LessOrEqual(t, d.summaries.count, retention.Summaries)
		require.LessOrEqual(t, d.summaries.bytes, maxSummariesBytes)
	}
	all, _ = d.Summaries(0)
	require.Len(t, all, d.summaries.count)
	require.Len(t, all[len(all)-1].Last.Cause.Stderr, keptStderrLines)
	servers := map[string]bool{}
	for _, one := range all {
		servers[one.Last.Server] = true
	}
	require.Len(t, d.summaries.latest, len(servers), "nothing is kept of servers without a summary")
	require.LessOrEqual(t, len(d.summaries.bySimilar), len(all))
}
