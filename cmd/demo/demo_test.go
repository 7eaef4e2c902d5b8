package main

import (
	"bytes"
	"context"
	"errors"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

func TestRun(t *testing.T) {
	printed := runWithPage(t)
	for line := range strings.Lines(printed) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, line)
	}
	text := strings.Join(strings.Fields(printed), " ") // lines are wrapped
	requireInOrder(t, text)
	for _, server := range []string{"files", "legacy"} {
		require.Less(t, strings.Index(text, "KILL "+server), strings.Index(text, "down "+server), text)
	}
	require.Contains(t, text, "down stuck server did not answer 2 liveness probes in a row")
	require.NotContains(t, text, "\x1b", "only terminals get colours")

	// The picture in the README is of this demo: make recording.
	picture, err := os.ReadFile("../../docs/images/demo.svg")
	require.NoError(t, err)
	recorded := strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(picture), " "))), " ")
	begin := strings.Index(recorded, "6 MCP servers")
	require.GreaterOrEqual(t, begin, 0)
	recorded = recorded[begin:]
	requireInOrder(t, strings.Replace(recorded, "seed ", "seed 42 ", 1))
	pass := regexp.MustCompile(`PASS .* \(`)
	require.Equal(t, pass.FindString(text), pass.FindString(recorded))
}

// requireInOrder: the text is what the demo prints, in its order.
func requireInOrder(t *testing.T, text string) {
	t.Helper()
	at := -1
	for _, want := range []string{
		"6 MCP servers", "seed 42", "● files", `calc/add → {"sum":42}`, "did you mean calc/add?", "division by zero (a result, not a failed call)",
		"tools files count read search slow", "while it works on a call", "tools files none", "files/read ✗ unavailable · retry in", `calc/add → {"sum":2}`,
		"incarnation 2", "tools files count read search slow", "files/read → let it crash",
		"BREAK", "1/3 in 500ms", "NOTES_DIR is not set", "2/3 in 1s", "the same again", "3/3 in 2s", "incarnation 5",
		"its policy is: no retry", "given up", "legacy/convert ✗ evicted", "tools legacy none",
		"tools flaky commit", "EXIT", "tools flaky none", "tools flaky commit",
		"tools stuck count think", "HANG", "stuck/think ✗ crashed", "tools stuck none", "tools stuck count think", "stuck/count →",
		"tools remote count fetch", "LOSE", "tools remote none", "tools remote count fetch", "remote/fetch → hello from afar",
		"STORM", "kills: ", "✗ legacy evicted", "0 are left", "PASS",
	} {
		next := strings.Index(text[at+1:], want)
		require.GreaterOrEqual(t, next, 0, "%q is missing after position %d in\n%s", want, at, text)
		at += 1 + next
	}
}

func TestKill_announced_before(t *testing.T) {
	var d *demo
	answered := errors.New("it was not announced")
	out := &output{}
	out.seen = func(text string) {
		if strings.Contains(text, "KILL") && d.checks == 0 { // the first time
			d.checks++
			_, answered = d.client.CallTool(t.Context(), "calc/add", map[string]any{"a": 1, "b": 1})
		}
	}
	d, err := open(newPrinter(out), settings{})
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(d.servers.dir)) }()
	require.NoError(t, d.client.Register(t.Context(), d.servers.specs[0]))
	require.NoError(t, d.kill("calc", "KILL", ""))
	require.NoError(t, answered)
	require.ErrorContains(t, d.kill("other", "KILL", ""), "other has no process to kill")
	require.NoError(t, d.client.Close(t.Context()))
	<-d.events.done
	d.servers.close()
}

func TestRun_interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.Equal(t, 1, run(ctx, newPrinter(&out), settings{seed: 7}))
	require.Contains(t, out.String(), "FAIL  the demo ran to its end")
	require.Contains(t, out.String(), "--seed 7")
}

func TestCheckExecutions(t *testing.T) {
	ok := callRecord{server: "s", key: "k", answer: "k"}
	failed := func(o mcpvisor.Error) callRecord { return callRecord{server: "s", key: "k", err: &o} }
	unknown := failed(mcpvisor.Error{Outcome: mcpvisor.OutcomeUnknown})
	refused := failed(mcpvisor.Error{Outcome: mcpvisor.OutcomeNotSent})
	done := func(n int) map[string]map[string]int { return map[string]map[string]int{"s": {"k": n}} }
	for name, tc := range map[string]struct {
		o    callRecord
		n    int
		good bool
	}{
		"ok, once":               {ok, 1, true},
		"ok, never":              {ok, 0, false},
		"ok, twice":              {ok, 2, false},
		"ok, another's answer":   {callRecord{server: "s", key: "k", answer: "x"}, 1, false},
		"unknown, never":         {unknown, 0, true},
		"unknown, once":          {unknown, 1, true},
		"unknown, twice":         {unknown, 2, false},
		"not sent, never":        {refused, 0, true},
		"not sent, and executed": {refused, 1, false},
		"another error":          {callRecord{server: "s", key: "k", err: errors.New("x")}, 0, false},
	} {
		require.Equal(t, tc.good, checkExecutions([]callRecord{tc.o}, done(tc.n)) == nil, name)
	}
	require.Error(t, checkExecutions(nil, done(1)), "executed without a call")
	for took, failures := range map[time.Duration]int{tooLong: 0, tooLong + 1: 1} {
		d := &demo{p: newPrinter(io.Discard)}
		d.summary([]callRecord{{took: time.Second}, {took: took}}, 1)
		require.Len(t, d.failures, failures, took)
	}
	d := &demo{p: newPrinter(io.Discard)}
	d.summary(nil, 1)
	require.Len(t, d.failures, 1, "no call was made")
}

func TestCheckDelays(t *testing.T) {
	var events []mcpvisor.Event
	now := time.Unix(0, 0)
	try := func(attempt int, delay, waited time.Duration) {
		due := now.Add(delay)
		events = append(events, mcpvisor.Event{Server: "files", Kind: mcpvisor.EventRetry, Attempt: attempt, Delay: delay, Time: now, RetryAt: &due})
		now = now.Add(waited)
		events = append(events, mcpvisor.Event{Server: "files", Kind: mcpvisor.EventConnecting, Time: now})
	}
	try(1, 500*time.Millisecond, 501*time.Millisecond)
	try(1, 500*time.Millisecond, 500*time.Millisecond)
	try(2, time.Second, time.Second)
	require.ErrorContains(t, checkDelays(events), "files waited")
	try(3, 2*time.Second, 2*time.Second)
	require.NoError(t, checkDelays(events))
	try(2, 500*time.Millisecond, time.Second)
	require.ErrorContains(t, checkDelays(events), "before try 2")
	events = events[:len(events)-2]
	try(1, 500*time.Millisecond, 499*time.Millisecond)
	require.ErrorContains(t, checkDelays(events), "was tried again after")
}

func TestCheckListing(t *testing.T) {
	ready := mcpvisor.ServerStatus{Name: "a", State: supervisor.StateReady}
	ready.Catalog.Tools = 1
	evicted := mcpvisor.ServerStatus{Name: "b", State: supervisor.StateEvicted}
	evicted.Catalog.Tools = 1 // of its last session
	tool := func(server string) mcpvisor.Tool { return mcpvisor.Tool{Server: server} }
	require.NoError(t, checkListing([]mcpvisor.ServerStatus{ready, evicted}, []mcpvisor.Tool{tool("a")}))
	require.Error(t, checkListing([]mcpvisor.ServerStatus{ready, evicted}, nil))
	require.Error(t, checkListing([]mcpvisor.ServerStatus{ready, evicted}, []mcpvisor.Tool{tool("a"), tool("b")}))
	require.Error(t, checkListing([]mcpvisor.ServerStatus{ready}, []mcpvisor.Tool{tool("a"), tool("c")}))
}

func TestPrinter(t *testing.T) {
	masked := func(color bool, width int) string {
		var out bytes.Buffer
		p := newPrinter(&out)
		p.color, p.width = color, width
		p.printFact(green, "ready", "files", "4 tools · %s", "protocol 2026-07-28")
		p.printLine(red, "✗ %s", "legacy")
		return regexp.MustCompile(`\d+\.\ds`).ReplaceAllString(out.String(), "0.0s")
	}
	require.Equal(t, "  0.0s  ready  files  4 tools · protocol 2026-07-28\n✗ legacy\n", masked(false, 0))
	require.Equal(t, "\x1b[2m  0.0s\x1b[0m  \x1b[32mready \x1b[0m files  4 tools · protocol 2026-07-28\n\x1b[31m✗ legacy\x1b[0m\n", masked(true, 0))
	require.Equal(t, "  0.0s  ready  files  4 tools ·\n                      protocol 2026-07-28\n✗ legacy\n", masked(false, 44))
	for _, width := range []int{1, 5, 24, 30, 40, 50} {
		for _, line := range strings.Split(masked(false, width), "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), max(width, 22+minRoom), "width %d", width)
		}
	}
	for text, want := range map[string][2]string{"a b · c": {"a b ·", "c"}, "aaaa bbbbb": {"aaaa", "bbbbb"}, "aaaaaaaaaa": {"aaaaaa", "aaaa"}, "fits": {"fits", ""}} {
		line, rest := splitLine(text, 6)
		require.LessOrEqual(t, utf8.RuneCountInString(line), 6)
		require.Equal(t, want, [2]string{line, rest}, text)
	}
}

// The last column of a table is not cut: it is continued below where it does not fit.
func TestPrintTable_policy(t *testing.T) {
	policy := supervisor.Retry(5, 500*time.Millisecond, supervisor.WithMaxDelay(time.Minute), supervisor.WithStableAfter(time.Minute)).String()
	for _, width := range []int{80, 100, 200} {
		var out bytes.Buffer
		p := newPrinter(&out)
		p.width = width
		p.printTable([]mcpvisor.ServerStatus{{Name: "files", State: supervisor.StateReady, Policy: policy}})
		require.Contains(t, strings.Join(strings.Fields(out.String()), " "), policy, out.String())
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, line)
		}
	}
}

// What is wrong with the command line is told in one line.
func TestParseFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--sed", "1"}, "flag provided but not defined: -sed"}, {[]string{"--storm", "x"}, `invalid value "x"`},
		{[]string{"x"}, `unexpected argument "x"`}, {[]string{"--http", "a", "b"}, `unexpected argument "a"`},
	} {
		var out, errs bytes.Buffer
		_, code, done := parseFlags(c.args, &out, &errs)
		require.True(t, done)
		require.Equal(t, 2, code)
		require.Empty(t, out.String())
		require.Contains(t, errs.String(), c.want)
		require.Equal(t, 1, strings.Count(errs.String(), "\n"), errs.String())
		require.Contains(t, errs.String(), "-help")
	}
	var out, errs bytes.Buffer
	_, code, done := parseFlags([]string{"-h"}, &out, &errs)
	require.True(t, done)
	require.Zero(t, code)
	require.Contains(t, out.String(), "-seed int")
	require.Empty(t, errs.String())
	s, _, done := parseFlags([]string{"--seed=7", "--http", "127.0.0.1:0"}, &out, &errs)
	require.False(t, done)
	require.Equal(t, "127.0.0.1:0", s.http)
	require.EqualValues(t, 7, s.seed)
}
