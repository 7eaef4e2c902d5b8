package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/teatest/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The package that renders goldens has a flag of this name, too.
var update = flag.Lookup("update")

// teatest leaves a goroutine that waits for signals.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/charmbracelet/x/exp/teatest/v2.NewTestModel.func2"))
}

// clock is the time of all tests.
var clock = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// fakeSource answers from values.
type fakeSource struct {
	status api.Status
	server api.Server
	tools  api.Tools
	use    api.ToolUse
	calls  api.Calls
	usage  api.Usage

	summaries api.EventSummaries
	clients   api.Clients
	nodes     api.Nodes

	mu        sync.Mutex
	failure   error
	restarted []string
	operated  []string // "stop NAME", "start NAME"
}

func (f *fakeSource) Status(context.Context) (api.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, f.failure
}

func (f *fakeSource) Server(_ context.Context, name string) (api.Server, error) {
	s := f.server
	for _, status := range f.status.Servers {
		if status.Name == name {
			s.Status = status
		}
	}
	return s, nil
}
func (f *fakeSource) Catalog(context.Context, string) (api.Tools, error) { return f.tools, nil }
func (f *fakeSource) ToolUse(context.Context) (api.ToolUse, error)       { return f.use, nil }
func (f *fakeSource) Usage(context.Context) (api.Usage, error)           { return f.usage, nil }
func (f *fakeSource) Calls(context.Context, uint64) (api.Calls, error)   { return f.calls, nil }
func (f *fakeSource) Clients(context.Context) (api.Clients, error)       { return f.clients, nil }
func (f *fakeSource) Nodes(context.Context) (api.Nodes, error)           { return f.nodes, nil }
func (f *fakeSource) Summaries(context.Context, uint64, ...string) (api.EventSummaries, error) {
	return f.summaries, nil
}
func (f *fakeSource) Restart(_ context.Context, name string, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restarted = append(f.restarted, name)
	return nil
}

func (f *fakeSource) StopServer(_ context.Context, name string, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.operated = append(f.operated, "stop "+name)
	return nil
}

func (f *fakeSource) StartServer(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.operated = append(f.operated, "start "+name)
	return nil
}

func (f *fakeSource) Events(ctx context.Context, _ uint64, _ func(api.Event) bool, _ ...mcpvisor.EventKind) error {
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeSource) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
}

func ago(d time.Duration) *time.Time { at := clock.Add(-d); return &at }

// outage is a source with a server in each kind of trouble.
func outage() *fakeSource {
	code := 7
	cause := &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &code, Message: "server process ended with exit status 7", Stderr: []string{"missing API_KEY \x1b[31mred"}}
	ready := mcpvisor.ServerStatus{Name: "files", State: supervisor.StateReady, Since: *ago(12 * time.Minute), Transport: "stdio", Target: "/usr/bin/npx", Origin: ".mcp.json:4",
		Policy: "retry 5×, 500ms doubling", MaxAttempts: 5, Restarts: 2, LastCause: cause, Catalog: mcpvisor.CatalogInfo{Tools: 3, Tokens: 512},
		Session: &mcpvisor.SessionInfo{ServerName: "fs", ServerVersion: "1.2", ProtocolVersion: "2026-07-28", PID: 4711}, Copies: []int{4712},
		Calls: mcpvisor.CallCounts{Total: 12, Failed: 1, InFlight: 2}, Totals: mcpvisor.Totals{Uptime: time.Hour, Unknown: 1},
		History: []mcpvisor.Incarnation{{Epoch: 1, Started: *ago(time.Hour), Ended: *ago(20 * time.Minute), Served: true, Cause: cause},
			{Epoch: 2, PID: 4690, Started: *ago(19 * time.Minute), Ended: *ago(18 * time.Minute), Cause: cause}}}
	down := mcpvisor.ServerStatus{Name: "orders-database", State: supervisor.StateBackoff, Since: *ago(3 * time.Second), RetryAt: ago(-4500 * time.Millisecond), Attempt: 2, MaxAttempts: 5,
		Restarts: 1, LastCause: cause}
	given := mcpvisor.ServerStatus{Name: "search", State: supervisor.StateEvicted, Since: *ago(26 * time.Hour), LastCause: cause}
	starting := mcpvisor.ServerStatus{Name: "web", State: supervisor.StateDiscovering, Since: *ago(400 * time.Millisecond), Session: &mcpvisor.SessionInfo{PID: 4242}}
	return &fakeSource{
		status: api.Status{Servers: []mcpvisor.ServerStatus{ready, down, given, starting}, Names: []string{"files", "orders-database", "search", "web"},
			Attention: []api.Attention{
				{Server: "search", Kind: api.AttentionEvicted, Severity: api.SeverityError, Text: "was given up: exit status 7", Action: "fix it", Since: ago(26 * time.Hour)},
				{Server: "files", Kind: api.AttentionUnknownOutcome, Severity: api.SeverityWarning, Text: "1 call of unknown outcome in the last 10 min", Action: "look before you repeat it"},
			}},
		server: api.Server{Stderr: monitor.ServerStderr{Epoch: 3, PID: 4711, Total: 9, First: []string{"listening"}, Lines: []string{"warm \x1b[2Jcache", strings.Repeat("long ", 30)}},
			Tools: []api.ToolStats{{Server: "files", Name: "files/read", OriginalName: "read", Calls: 12, Unknown: 1, Failed: map[mcpvisor.ErrorKind]int64{"crashed": 1},
				P50: 800 * time.Microsecond, P95: 12 * time.Millisecond, Max: 3 * time.Second}}},
		tools: api.Tools{Server: "files", Tools: []api.Tool{{Tool: mcpvisor.Tool{OriginalName: "read"}, Tokens: 210}, {Tool: mcpvisor.Tool{OriginalName: "write"}, Tokens: 302}}},
		use:   api.ToolUse{Tools: []api.ToolStats{{Server: "files", Calls: 12, P95: 12 * time.Millisecond}}},
		calls: api.Calls{InFlight: []monitor.CallInFlight{{Server: "files", Method: "tools/call", Target: "read", Began: *ago(40 * time.Second)},
			{Server: "files", Method: "ping", Began: *ago(time.Second), Queued: true}}},
	}
}

// shown is a view that has read its source, after some keys.
func shown(t *testing.T, source Source, width, height int, keys ...string) *model {
	t.Helper()
	m := newModel(t.Context(), source, Options{Title: ".mcp.json, attached", Now: func() time.Time { return clock }})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	settle(m, m.read())
	for _, name := range keys {
		_, cmd := m.Update(press(name))
		settle(m, cmd)
	}
	return m
}

// settle runs commands until none is left, except those of the blinking cursor.
func settle(m *model, cmd tea.Cmd) {
	for cmd != nil && !m.filtering {
		msg := cmd()
		if both, ok := msg.(tea.BatchMsg); ok { // what is read, and the cursor
			msg = both[0]()
		}
		_, cmd = m.Update(msg)
	}
}

func press(name string) tea.KeyPressMsg {
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown, "home": tea.KeyHome}
	if code, ok := special[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// requireGolden compares a screen with a file, without colours.
func requireGolden(t *testing.T, name string, m *model) {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(ansi.Strip(m.View().Content)) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	path := filepath.Join("testdata", name+".txt")
	if update != nil && update.Value.String() == "true" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), b.String())
}

func TestScreens(t *testing.T) {
	for name, keys := range map[string][]string{
		"servers": nil, "selected": {"down", "down"}, "details": {"enter"}, "details-end": {"enter", "end"}, "tools": {"t"}, "stderr": {"l"}, "help": {"?"},
		"confirm": {"R"}, "filter": {"/", "s", "e", "a"}, "evicted": {"G", "up", "enter"},
	} {
		t.Run(name, func(t *testing.T) { requireGolden(t, name, shown(t, outage(), 80, 24, keys...)) })
	}
	t.Run("wide", func(t *testing.T) { requireGolden(t, "wide", shown(t, outage(), 140, 24)) })
	t.Run("large", func(t *testing.T) { requireGolden(t, "large", shown(t, outage(), 200, 50)) })
	t.Run("crowd", func(t *testing.T) { requireGolden(t, "crowd", shown(t, crowd(), 80, 24, "down", "down")) })
	t.Run("crowd-large", func(t *testing.T) { requireGolden(t, "crowd-large", shown(t, crowd(), 200, 50, "s", "s")) })
	t.Run("failing", func(t *testing.T) { requireGolden(t, "failing", shown(t, failing(), 80, 24)) })
	t.Run("empty", func(t *testing.T) { requireGolden(t, "empty", shown(t, &fakeSource{}, 80, 24)) })
	for size, at := range map[string][2]int{"middle": {120, 35}, "large": {200, 50}} {
		for name, source := range map[string]*fakeSource{"crowd": crowd(), "failing": failing(), "empty": {}} {
			if name == "crowd" && size == "large" {
				continue // above, sorted
			}
			t.Run(name+"-"+size, func(t *testing.T) { requireGolden(t, name+"-"+size, shown(t, source, at[0], at[1])) })
		}
	}
}

// crowd is a source with 70 servers that are used differently, with long names.
func crowd() *fakeSource {
	f := outage()
	for i := range 66 {
		s := f.status.Servers[0]
		s.Name, s.Restarts = fmt.Sprintf("team-%02d-knowledge-base-production", i), i%7
		f.status.Servers = append(f.status.Servers, s)
		cpu, bytes, rate, share := float64(i%9)/10, int64(i)<<20, float64(i)*1.5, float64(i%3)/1000
		f.usage.Servers = append(f.usage.Servers, api.ServerUsage{Server: s.Name, CPU: &cpu, MemoryBytes: &bytes, CallsPerMinute: &rate, ErrorShare: &share})
	}
	for i := range 30 {
		f.calls.InFlight = append(f.calls.InFlight, monitor.CallInFlight{Server: "files", Target: fmt.Sprintf("tool-%d", i), Began: clock})
	}
	return f
}

// failing is a source whose servers have all been given up.
func failing() *fakeSource {
	f := outage()
	given := f.status.Servers[2]
	f.status.Servers, f.status.Attention, f.calls, f.use = nil, nil, api.Calls{}, api.ToolUse{}
	for _, name := range []string{"files", "search", "web"} {
		given.Name = name
		f.status.Servers = append(f.status.Servers, given)
		f.status.Attention = append(f.status.Attention, api.Attention{Server: name, Kind: api.AttentionEvicted, Severity: api.SeverityError, Text: "missing API_KEY; was given up: exit status 7", Since: ago(26 * time.Hour)})
	}
	return f
}

// What is not shown is counted: rows, columns, and lines of the details.
func TestView_counts_what_it_hides(t *testing.T) {
	text := ansi.Strip(shown(t, crowd(), 80, 24).View().Content)
	require.Regexp(t, `\d+ below, no room for PID, TOOLS`, text)
	require.Contains(t, text, "team-00-knowledge-base-p", "names come before columns")
	require.Contains(t, text, "32 in flight", "the list has no room")
	text = ansi.Strip(shown(t, crowd(), 80, 24, "end").View().Content)
	require.Regexp(t, `\d+ above`, text)
	text = ansi.Strip(shown(t, outage(), 80, 24, "enter").View().Content)
	require.Regexp(t, `lines 1 to 21 of \d\d`, text)
	text = ansi.Strip(shown(t, outage(), 80, 24).View().Content)
	require.Contains(t, text, "↵ shows them")
	for _, width := range []int{80, 60, 40} {
		last := shown(t, outage(), width, 24).footer()
		require.Contains(t, ansi.Strip(last), "? more keys")
		require.LessOrEqual(t, ansi.StringWidth(last), width)
	}
}

// A call that its server executes as a task is in flight.
func TestTasks(t *testing.T) {
	f := outage()
	f.calls.Tasks = []mcpvisor.OpenTask{{Server: "files", Tool: "index", State: "working", Message: "half \x1b[2J done", Began: *ago(time.Minute)}}
	text := shown(t, f, 80, 24).View().Content
	require.Regexp(t, `1m00s  files/index  task, working half .*done`, ansi.Strip(text))
	require.NotContains(t, text, "\x1b[2J")
	require.Contains(t, ansi.Strip(text), "3 in flight")
}

// Calls with a key that an earlier run has left without an end are listed with their keys.
func TestUnfinished_calls(t *testing.T) {
	f := outage()
	for _, key := range []string{"order-1", "order-2", "order-3", "order-4"} {
		f.calls.Unfinished = append(f.calls.Unfinished, mcpvisor.JournalEntry{Key: key, Server: "files", Tool: "charge", State: mcpvisor.JournalSent, Began: *ago(time.Hour)})
	}
	f.calls.Unfinished[1].State = mcpvisor.JournalTask
	f.calls.MoreUnfinished = 5
	text := ansi.Strip(shown(t, f, 120, 40).View().Content)
	require.Contains(t, text, "WITHOUT AN END  9 calls of an earlier run")
	require.Contains(t, text, "files/charge order-1  interrupted, may have been executed")
	require.Contains(t, text, "files/charge order-2  task, no caller waits for it")
	require.Contains(t, text, "and 7 more; mcpvisor tasks lists all")
}

func TestSort(t *testing.T) {
	f := crowd()
	m := shown(t, f, 200, 50)
	first := func() string { return m.servers()[0].Name }
	require.Equal(t, "files", first())
	for _, want := range []string{"search", "team-08-knowledge-base-production", "team-65-knowledge-base-production", "team-65-knowledge-base-production", "files", "files", "team-06-knowledge-base-production", "files"} {
		_, cmd := m.Update(press("s"))
		settle(m, cmd)
		require.Equal(t, want, first(), orders[m.order].name)
	}
	require.NotContains(t, ansi.Strip(m.View().Content), "  by ")
}

// day is a source on which one server has crashed since yesterday, and five other things have
// changed.
func day() *fakeSource {
	f := outage()
	add := func(before time.Duration, group api.EventGroup, server, text string, severity mcpvisor.Severity, count int, ready *time.Time) {
		f.summaries.Summaries = append(f.summaries.Summaries, api.EventSummary{Text: server + " " + text,
			EventSummary: monitor.EventSummary{Seq: uint64(len(f.summaries.Summaries)), Began: *ago(26 * time.Hour), Count: count, Ready: ready},
			Last:         api.Event{Severity: severity, Group: group, Event: mcpvisor.Event{Seq: uint64(len(f.summaries.Summaries)), Server: server, Time: *ago(before)}}})
	}
	f.summaries.Instance, f.summaries.Started = "1", *ago(72 * time.Hour)
	add(25*time.Hour, api.GroupConfiguration, "web", "registered", mcpvisor.SeverityInfo, 1, ago(25*time.Hour-2*time.Second))
	add(20*time.Hour, api.GroupLists, "files", "changed: tools +1 −0 ~2", mcpvisor.SeverityInfo, 1, nil)
	add(9*time.Hour, api.GroupGivenUp, "orders-database", "parked, next try in 5m0s: connection refused (exit status 1)", mcpvisor.SeverityError, 1, ago(8*time.Hour))
	add(6*time.Hour, api.GroupGivenUp, "mail", "waits to be authorized: the token was refused", mcpvisor.SeverityError, 1, nil)
	add(2*time.Hour, api.GroupConfiguration, "files", "registered again, with another specification", mcpvisor.SeverityInfo, 1, ago(2*time.Hour-time.Second))
	add(2*time.Minute, api.GroupEnds, "search", "ended 4312 times; last: missing API_KEY (exit status 7)", mcpvisor.SeverityWarning, 4312, ago(119*time.Second))
	return f
}

// What has changed since yesterday is one screen, whatever has crashed how often.
func TestEvents_of_a_day(t *testing.T) {
	requireGolden(t, "events", shown(t, day(), 80, 24, "e"))
	for _, group := range []struct {
		keys []string
		want []string
	}{{[]string{"e", "f"}, []string{"web registered", "files registered"}}, {[]string{"e", "f", "f"}, []string{"files changed"}},
		{[]string{"e", "f", "f", "f"}, []string{"parked", "authorized"}}, {[]string{"e", "/", "f", "i", "l", "e", "s", "enter"}, []string{"files changed", "files registered"}}} {
		m := shown(t, day(), 80, 24, group.keys...)
		text := ansi.Strip(strings.Join(m.entryLines(screenEvents), "\n"))
		for _, want := range group.want {
			require.Contains(t, text, want)
		}
		require.Len(t, regexp.MustCompile(`(?m)^(▸|  \w)`).FindAllString(text, -1), len(group.want)+1, text) // and the beginning
		m.Update(press("esc"))
		require.Equal(t, screenEvents, m.screen)
		require.Contains(t, ansi.Strip(m.View().Content), "search ended 4312 times")
		_, cmd := m.Update(press("esc"))
		settle(m, cmd)
		require.Equal(t, screenServers, m.screen)
	}
	m := shown(t, day(), 80, 24, "e")
	f := day()
	f.summaries.Summaries = f.summaries.Summaries[5:]
	f.summaries.Summaries[0].Text = "search ended 4313 times"
	m.summaries.take(&f.summaries)
	require.Len(t, m.summaries.all, 6, "one that has changed replaces itself")
	require.Contains(t, ansi.Strip(m.View().Content), "ended 4313 times")
}

// Calls of unknown outcome that ended alike are one row, so that they leave room for others.
func TestCalls_alike(t *testing.T) {
	f := outage()
	for range 20 {
		f.calls.Unknown = append(f.calls.Unknown, monitor.CallRecord{Server: "files", Target: "write", Began: clock, Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown})
	}
	f.calls.Recent = []monitor.CallRecord{{Server: "files", Target: "read", Began: clock}}
	text := ansi.Strip(shown(t, f, 100, 24, "c").View().Content)
	require.Contains(t, text, "crashed, may have been executed, 20 times in a row")
	require.Equal(t, 1, strings.Count(text, "files/write"))
	require.Contains(t, text, "files/read")
}

// Who uses the gateway, and what they may call.
func TestClients(t *testing.T) {
	f := outage()
	f.clients.Instance = "1"
	require.Contains(t, ansi.Strip(shown(t, f, 100, 24, "h").View().Content), "no client within 15 minutes")
	f.clients.Status = clients.Status{Total: 250, Offers: []clients.Offer{{Servers: []string{"files", "search"}, Tools: 14, Prompts: 1, Withheld: 2}, {Profile: "reader", Servers: []string{"files"}, Tools: 3}},

		Sessions: []clients.SessionStatus{{Number: 1, Info: clients.Info{Name: "claude-code", Version: "2.1.4", Transport: "stdio", Protocol: "2025-11-25"}, Since: *ago(time.Hour), Last: *ago(time.Second), Requests: 20, Calls: 12, InFlight: 2},
			{Number: 2, Info: clients.Info{Principal: "ci", Profile: "reader", Transport: "http", Protocol: "2026-07-28"}, Since: *ago(time.Minute), Last: *ago(10 * time.Second), Requests: 3, Calls: 2, Failed: 1}}}
	requireGolden(t, "clients", shown(t, f, 80, 24, "h"))
	f.clients.Sessions[0].Tasks = 25
	f.clients.Sessions[0].OpenTasks = []clients.TaskStatus{{Server: "files", Tool: "index", State: "working", Since: *ago(time.Minute)}, {Server: "search", State: "input_required\x1b[2J", Since: *ago(time.Hour)}}
	text := shown(t, f, 100, 24, "h").View().Content
	require.NotContains(t, text, "\x1b[2J")
	require.Contains(t, ansi.Strip(text), "task of files/index: working, for 1m")
	require.Contains(t, ansi.Strip(text), "task of search: input_required")
	require.Contains(t, ansi.Strip(text), "and 23 tasks more")
	f.calls.Recent = []monitor.CallRecord{{Server: "files", Target: "read", Began: clock, Client: "claude-code 2.1.4"}}
	require.Contains(t, ansi.Strip(shown(t, f, 100, 24, "c").View().Content), "ok, for claude-code 2.1.4")
}

func TestEvents(t *testing.T) {
	m := shown(t, outage(), 80, 24, "e", "o")
	require.Contains(t, ansi.Strip(m.View().Content), "nothing has happened yet")
	for i := range keptEvents + 10 {
		m.Update(eventMsg{api.Event{Event: mcpvisor.Event{Time: clock, Seq: uint64(i)}, Text: fmt.Sprintf("event %d \x1b[2J", i), Severity: mcpvisor.SeverityError}, true})
	}
	require.Len(t, m.events, keptEvents)
	text := m.View().Content
	require.Contains(t, ansi.Strip(text), "12:00:00  event 509")
	m.Update(eventMsg{api.Event{Event: mcpvisor.Event{Time: *ago(24 * time.Hour)}, Text: "older"}, true})
	require.Contains(t, ansi.Strip(m.View().Content), clock.Add(-24*time.Hour).Format("Jan _2")+" 12:00:00  older", "the day, if it is not today")
	require.NotContains(t, text, "\x1b[2J")
}

// The page's address is where keys are explained.
func TestHelp_names_the_page(t *testing.T) {
	m := shown(t, outage(), 80, 30)
	m.opts.Page = "http://127.0.0.1:7007/"
	_, cmd := m.Update(press("?"))
	settle(m, cmd)
	require.Contains(t, ansi.Strip(m.View().Content), "http://127.0.0.1:7007/")
}

// A server that is removed while it is read ends nothing.
func TestRead_of_a_removed_server(t *testing.T) {
	m := shown(t, outage(), 80, 24)
	m.selected = "removed"
	m.source = removedSource{outage()}
	settle(m, m.read())
	require.NoError(t, m.lost)
	require.Equal(t, "files", m.selected)
}

type removedSource struct{ *fakeSource }

func (removedSource) Server(_ context.Context, name string) (api.Server, error) {
	if name == "removed" {
		return api.Server{}, &mcpvisor.Error{Kind: mcpvisor.ErrUnknownServer}
	}
	return api.Server{}, nil
}

// caller has the one tool of outage, whose calls end with answer.
func caller(t *testing.T, schema string, readOnly bool, answer func(ctx context.Context, arguments string) (string, error), keys ...string) *model {
	t.Helper()
	m := shown(t, outage(), 80, 24, "t")
	m.opts.Tool = func(_ context.Context, name string) (json.RawMessage, error) {
		require.Equal(t, "files/read", name)
		return fmt.Appendf(nil, `{"tools":[{"name":%q,"definition":{"inputSchema":%s,"annotations":{"readOnlyHint":%v}}}]}`, name, schema, readOnly), nil
	}
	m.opts.FormAdvice = "; answer it elsewhere"
	m.opts.Call = func(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
		text, err := answer(ctx, string(arguments))
		return json.RawMessage(text), err
	}
	typeKeys(t, m, append([]string{"enter"}, keys...)...)
	return m
}

// typeKeys presses keys; a text of several letters is typed.
func typeKeys(t *testing.T, m *model, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if len(key) > 1 && !slices.Contains([]string{"enter", "esc", "down", "up", "end", "pgdown", "home"}, key) {
			for _, r := range key {
				m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
			}
			continue
		}
		_, cmd := m.Update(press(key))
		settle(m, cmd)
	}
}

const readSchema = `{"type":"object","required":["path"],"properties":{"path":{"type":"string","description":"The file."},"limit":{"type":"integer","default":10},"mode":{"enum":["text","bytes"]}}}`

// A tool is called with what its form says, once, and its outcome stays beside the form.
func TestCall(t *testing.T) {
	var sent []string
	echo := func(_ context.Context, arguments string) (string, error) {
		sent = append(sent, arguments)
		return `{"content":[{"type":"text","text":"one\ntwo \u001b[2J"},{"type":"image"}]}`, nil
	}
	m := caller(t, readSchema, true, echo)
	requireGolden(t, "form", m)
	typeKeys(t, m, "enter", "enter", "enter")
	require.Contains(t, ansi.Strip(m.View().Content), "not sent: path is required")
	typeKeys(t, m, "/tmp", "enter", "many", "enter", "enter")
	require.Contains(t, ansi.Strip(m.View().Content), "not sent: limit: it must be")
	require.Empty(t, sent)
	m.call.values[1] = ""
	m.call.edit(1)
	typeKeys(t, m, "3", "enter", "1", "enter")
	require.Equal(t, []string{`{"path":"/tmp","limit":3,"mode":"text"}`}, sent)
	requireGolden(t, "called", m)
	require.NotContains(t, m.View().Content, "\x1b[2J")
	typeKeys(t, m, "esc", "enter")
	require.Contains(t, ansi.Strip(m.View().Content), "/tmp", "what was typed is kept")
}

// A tool that may change something is called after a question only.
func TestCall_asks(t *testing.T) {
	sent := 0
	m := caller(t, `{"type":"object"}`, false, func(context.Context, string) (string, error) {
		sent++
		return `{"content":[],"isError":true,"structuredContent":{"a":1}}`, nil
	}, "enter")
	require.Contains(t, ansi.Strip(m.View().Content), "call it?")
	typeKeys(t, m, "n")
	require.Zero(t, sent)
	typeKeys(t, m, "enter", "y")
	require.Equal(t, 1, sent)
	text := ansi.Strip(m.View().Content)
	require.Contains(t, text, "the tool reports an error")
	require.Contains(t, text, `"a": 1`)
}

// A call whose outcome is unknown says so. One that runs is cancelled by esc, and the form stays.
func TestCall_fails(t *testing.T) {
	m := caller(t, `{"type":"object"}`, true, func(context.Context, string) (string, error) {
		return "", &mcpvisor.Error{Op: "call files/read", Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown}
	}, "enter")
	require.Contains(t, ansi.Strip(m.View().Content), "may have been executed")

	m = caller(t, `{"type":"object"}`, true, func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	_, cmd := m.Update(press("enter"))
	require.Contains(t, ansi.Strip(m.View().Content), "esc cancels")
	m.Update(press("esc"))
	settle(m, cmd)
	require.Contains(t, ansi.Strip(m.View().Content), "context canceled")
	require.Equal(t, screenCall, m.screen)
}

// A tool that needs a form says that it failed, and how to answer the form.
func TestCall_of_a_tool_that_asks(t *testing.T) {
	m := caller(t, `{"type":"object"}`, true, func(context.Context, string) (string, error) {
		return `{"content":[{"type":"text","text":"client does not support elicitation"}],"isError":true}`, nil
	}, "enter")
	require.Contains(t, ansi.Strip(m.View().Content), "the tool reports an error, after 0s; answer it elsewhere")
}

// All calls have a screen: in flight, of unknown outcome, and ended. So has what needs attention.
func TestLists_of_all(t *testing.T) {
	f := crowd()
	f.calls.Unknown = []monitor.CallRecord{{Seq: 7, Server: "files", Target: "pay", Began: *ago(time.Minute), Took: 3 * time.Second, Kind: mcpvisor.ErrCrashed, Outcome: mcpvisor.OutcomeUnknown}}
	f.calls.Recent = append(f.calls.Unknown, monitor.CallRecord{Seq: 8, Server: "files", Target: "read", Began: *ago(time.Second), Took: 4 * time.Millisecond},
		monitor.CallRecord{Seq: 9, Server: "search", Target: "find", Began: clock, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent},
		monitor.CallRecord{Seq: 10, Server: "files", Method: "resources/read", Began: clock, ToolError: true})
	for i := range 9 {
		f.status.Attention = append(f.status.Attention, api.Attention{Server: fmt.Sprintf("team-%02d", i), Kind: api.AttentionParked, Severity: api.SeverityWarning, Text: "ECONNREFUSED", Action: "fix the cause", Since: ago(time.Minute)})
	}
	text := ansi.Strip(shown(t, f, 120, 30).View().Content)
	require.Contains(t, text, "and 8 more, a shows all")
	text = ansi.Strip(shown(t, f, 120, 50).View().Content)
	require.NotContains(t, text, "a shows all", "a tall terminal has room for them")
	require.Contains(t, text, "more, c shows all")
	requireGolden(t, "calls", shown(t, f, 80, 60, "c"))
	requireGolden(t, "attention", shown(t, f, 80, 60, "a"))
	require.Contains(t, ansi.Strip(shown(t, &fakeSource{}, 80, 24, "c").View().Content), "no call was made yet")
	require.Contains(t, ansi.Strip(shown(t, &fakeSource{}, 80, 24, "a").View().Content), "nothing")
}

// What is pasted is typed into the field that is edited, not into a call that runs.
func TestPaste(t *testing.T) {
	m := caller(t, readSchema, true, nil)
	m.Update(tea.PasteMsg{Content: "/etc/hosts\n"})
	require.Equal(t, "/etc/hosts", strings.TrimSpace(m.call.values[0]))
	m.call.confirm = true
	m.Update(tea.PasteMsg{Content: "more"})
	require.NotContains(t, m.call.values[0], "more", "a question is open")

	m = shown(t, outage(), 80, 24, "/")
	m.Update(tea.PasteMsg{Content: "search"})
	require.Equal(t, "search", m.filter.Value())
	require.Equal(t, "search", m.selected)
	m = shown(t, outage(), 80, 24)
	m.Update(tea.PasteMsg{Content: "R"})
	require.Empty(t, m.confirm, "text is no key")
}

// A form that was read for a tool that is no longer chosen takes the place of nothing: a call
// that runs keeps its form, and can be cancelled.
func TestForm_that_comes_late(t *testing.T) {
	m := caller(t, readSchema, true, nil)
	require.Equal(t, screenCall, m.screen)
	canceled := false
	m.call.cancel = func() { canceled = true }
	other := formMsg{name: "files/write", tool: table.Tool{Name: "files/write"}}
	settle(m, m.showForm(other))
	require.Equal(t, "files/read", m.call.tool)
	m.Update(press("esc"))
	require.True(t, canceled)

	m = shown(t, outage(), 80, 24, "t", "esc")
	settle(m, m.showForm(formMsg{name: "files/read", tool: table.Tool{Name: "files/read"}}))
	require.Equal(t, screenServers, m.screen)
}

// The first tool is selected where another server's tools are shown, and one that is listed
// where tools were removed.
func TestTools_selection(t *testing.T) {
	f := outage()
	m := shown(t, f, 80, 24, "t", "down")
	require.Equal(t, 1, m.toolAt)
	typeKeys(t, m, "esc", "down", "t")
	require.Zero(t, m.toolAt, "of another server")
	typeKeys(t, m, "down")
	f.tools.Tools = append([]api.Tool{{Tool: mcpvisor.Tool{OriginalName: "append"}}}, f.tools.Tools...)
	settle(m, m.read())
	require.Contains(t, ansi.Strip(m.View().Content), "▸ write", "the same tool, where others came before it")
	f.tools.Tools = f.tools.Tools[1:2]
	settle(m, m.read())
	require.Contains(t, ansi.Strip(m.View().Content), "▸ read")
}

// No line is longer than the terminal is wide, and there are not more lines than it is high,
// whatever is shown.
func TestView_fits(t *testing.T) {
	many := outage()
	for i := range 200 {
		s := many.status.Servers[i%4]
		s.Name = fmt.Sprintf("server-with-a-long-name-%03d-服务器", i)
		many.status.Servers = append(many.status.Servers, s)
		many.status.Attention = append(many.status.Attention, api.Attention{Server: s.Name, Text: strings.Repeat("text ", 40), Severity: api.SeverityError})
		many.calls.InFlight = append(many.calls.InFlight, monitor.CallInFlight{Server: s.Name, Target: strings.Repeat("t", 90), Began: clock})
	}
	for _, size := range [][2]int{{80, 24}, {40, 10}, {200, 60}, {20, 5}, {1, 1}, {95, 24}, {96, 24}} {
		for _, source := range []*fakeSource{many, outage(), {}} {
			for _, keys := range [][]string{nil, {"end"}, {"enter"}, {"enter", "end"}, {"t"}, {"l"}, {"l", "home"}, {"?"}, {"R"}, {"/", "x"}, {"r"}, {"c", "end"}, {"c", "enter"}, {"e"}} {
				m := shown(t, source, size[0], size[1], keys...)
				lines := strings.Split(m.View().Content, "\n")
				require.LessOrEqual(t, len(lines), size[1], "%v %v", size, keys)
				for _, line := range lines {
					if !m.filtering { // the input has a margin for its cursor
						require.LessOrEqual(t, ansi.StringWidth(line), size[0], "%v %v %q", size, keys, line)
					}
				}
			}
		}
	}
}

func TestRestart(t *testing.T) {
	source := outage()
	m := shown(t, source, 80, 24, "down", "r")
	require.Equal(t, []string{"orders-database"}, source.restarted)
	require.Contains(t, ansi.Strip(m.View().Content), "restarting orders-database")
	source.restarted = nil
	shown(t, source, 80, 24, "R", "n")
	require.Empty(t, source.restarted)
	shown(t, source, 80, 24, "R", "y")
	require.Equal(t, source.status.Names, source.restarted)
}

// A restart that ends calls in flight is asked for; r does nothing where no server is shown.
func TestRestart_with_calls_in_flight(t *testing.T) {
	source := outage()
	m := shown(t, source, 80, 24, "r")
	require.Equal(t, "files", m.selected)
	require.Contains(t, ansi.Strip(m.footer()), "restart files? 2 calls in flight fail  y restart")
	require.LessOrEqual(t, ansi.StringWidth(m.footer()), 80)
	for _, keys := range [][]string{{"r"}, {"r", "n"}, {"r", "r"}, {"enter", "r"}, {"down", "e", "r"}, {"down", "c", "r", "y"}, {"?", "r"}} {
		shown(t, source, 80, 24, keys...)
		require.Empty(t, source.restarted, keys)
	}
	shown(t, source, 80, 24, "r", "y")
	require.Equal(t, []string{"files"}, source.restarted)
}

// A stop is always asked for, and a start never.
func TestStop_and_start(t *testing.T) {
	source := outage()
	m := shown(t, source, 80, 24, "x")
	require.Contains(t, ansi.Strip(m.footer()), "stop files? 2 calls in flight fail  y stop")
	for _, keys := range [][]string{{"x"}, {"x", "n"}, {"x", "x"}, {"down", "c", "x", "y"}, {"down", "c", "u"}} {
		shown(t, source, 80, 24, keys...)
		require.Empty(t, source.operated, keys)
	}
	m = shown(t, source, 80, 24, "x", "y")
	require.Contains(t, ansi.Strip(m.View().Content), "stopped files")
	shown(t, source, 80, 24, "down", "u")
	require.Equal(t, []string{"stop files", "start orders-database"}, source.operated)
	require.Empty(t, source.restarted)
	shown(t, source, 80, 24, "x", "n", "r", "y")
	require.Equal(t, []string{"files"}, source.restarted, "the question is forgotten")
}

// A program shows the table, follows keys, and ends with q.
func TestProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := newModel(ctx, outage(), Options{Title: "t", Now: func() time.Time { return clock }})
	tm := teatest.NewTestModel(t, m, teatest.WithInitialTermSize(80, 24))
	await := func(text string) {
		teatest.WaitFor(t, tm.Output(), func(out []byte) bool { return bytes.Contains(out, []byte(text)) }, teatest.WithDuration(time.Minute))
	}
	await("orders-datab")
	tm.Send(press("enter"))
	await("retry 5×")
	tm.Send(press("q"))
	tm.WaitFinished(t, teatest.WithFinalTimeout(time.Minute))
}

// When the servers are gone, the program ends and says why.
func TestRun_lost(t *testing.T) {
	source := outage()
	source.fail(errors.New("mcpvisor run has ended"))
	require.ErrorContains(t, Run(t.Context(), source, Options{}, nil, nil), "mcpvisor run has ended")

	source.fail(nil)
	done := make(chan error, 1)
	shows := &signalWriter{text: "search", found: make(chan struct{})}
	go func() {
		done <- run(t.Context(), source, Options{}, tea.WithInput(nil), tea.WithOutput(shows), tea.WithWindowSize(80, 24))
	}()
	<-shows.found
	source.fail(errors.New("the connection was lost"))
	require.ErrorContains(t, <-done, "the connection was lost")
}

// signalWriter closes found when text was written.
type signalWriter struct {
	mu    sync.Mutex
	all   bytes.Buffer
	text  string
	found chan struct{}
	once  sync.Once
}

func (w *signalWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(b)
	if strings.Contains(w.all.String(), w.text) {
		w.once.Do(func() { close(w.found) })
	}
	return len(b), nil
}

func TestGlyph(t *testing.T) {
	want := map[supervisor.State]string{
		supervisor.StateConnecting: "◐", supervisor.StateDiscovering: "◐", supervisor.StateReady: "●", supervisor.StateClosing: "◌",
		supervisor.StateBackoff: "↻", supervisor.StateParked: "◷", supervisor.StateUnauthorized: "◇", supervisor.StateEvicted: "✗",
		supervisor.StateWaiting: "◔", supervisor.StateAsleep: "◦", supervisor.StateResting: "◦", supervisor.StateStopped: "■",
		supervisor.StateStopping: "◌", supervisor.StateUnregistered: "○",
	}
	require.Len(t, supervisor.States(), len(want))
	for _, s := range supervisor.States() {
		require.Equal(t, want[s], glyph(s), "%s", s)
	}
	require.Equal(t, "○", glyph(""))
}
