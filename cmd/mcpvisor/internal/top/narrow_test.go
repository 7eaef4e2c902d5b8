package top

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// The screen of hosts has no heading without a row below it, and says how hosts come at any width.
func TestClients_none(t *testing.T) {
	f := outage()
	f.clients.Instance = "1"
	for _, width := range []int{40, 80} {
		m := shown(t, f, width, 24, "h")
		require.NotContains(t, text(m), "MAY CALL")
		require.Contains(t, oneLine(m), "hosts come with mcpvisor stdio, or with run --mcp ADDR")
	}
}

// A line of what needs attention that has no room for all is cut in the cause: how often the server
// has ended stays.
func TestAttention_keeps_the_count(t *testing.T) {
	f := outage()
	f.status.Attention = []api.Attention{{Server: "loop", Kind: api.AttentionFlapping, Severity: api.SeverityWarning, Since: ago(3 * time.Second),
		Text: "Error: cannot open the database " + strings.Repeat("x", 80) + " (exit status 7); has ended 6 times within 5 min"}}
	require.Regexp(t, `! loop Error: cannot open.*…; has ended 6 times within 5 min +3\.0s ago`, text(shown(t, f, 80, 24)))
	f.status.Attention[0].Text = "short; has ended 6 times within 5 min"
	require.Regexp(t, `! loop short; has ended 6 times within 5 min +3\.0s ago`, text(shown(t, f, 80, 24)))
}

// The help says from which width on a column is shown that does not fit now.
func TestHelp_columns(t *testing.T) {
	m := shown(t, crowd(), 80, 40, "?")
	for _, title := range []string{"CALLS/M", "FAILED", "P95"} {
		found := regexp.MustCompile(regexp.QuoteMeta(title) + ` .*; from (\d+) columns on`).FindStringSubmatch(text(m))
		require.NotNil(t, found, title)
		from, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		head := regexp.MustCompile(`SERVER .*`)
		require.Contains(t, head.FindString(text(shown(t, crowd(), from, 40))), title)
		require.NotContains(t, head.FindString(text(shown(t, crowd(), from-1, 40))), title)
	}
	require.NotContains(t, text(shown(t, crowd(), 250, 40, "?")), "columns on")
	require.NotContains(t, text(m), "…", "no line is cut")
}

// A tool that was added within the last hour is marked where tools are listed.
func TestTools_new(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Duration
		new    bool
	}{"just now": {5 * time.Minute, true}, "long ago": {61 * time.Minute, false}} {
		for _, width := range []int{80, 120} {
			m := shown(t, outage(), width, 40, "t")
			m.Update(eventMsg{api.Event{Event: mcpvisor.Event{Kind: mcpvisor.EventChanged, Server: "files", Time: *ago(c.before), Change: &mcpvisor.Change{Tools: mcpvisor.Delta{Added: []string{"files/write"}}}}}, true})
			require.Equal(t, c.new, regexp.MustCompile(`write +new`).MatchString(text(m)), fmt.Sprint(name, width, text(m)))
			require.NotRegexp(t, `read +new`, text(m))
			typeKeys(t, m, "esc", "enter")
			require.Equal(t, c.new, strings.Contains(text(m), "new: write, 5m00s ago"), name)
		}
	}
}

// A name of a state that does not say what it means has plain words beside it, wherever the state
// is explained.
func TestStates_in_words(t *testing.T) {
	f := outage()
	parked := &f.status.Servers[1]
	parked.State, parked.RetryAt = supervisor.StateParked, ago(-5*time.Minute)
	for i, e := range []mcpvisor.Event{{Kind: mcpvisor.EventEvicted, Server: "search", Attempt: 5, MaxAttempts: 5, Cause: parked.LastCause},
		{Kind: mcpvisor.EventParked, Server: "orders-database", Delay: 5 * time.Minute, RetryAt: parked.RetryAt, Cause: parked.LastCause}} {
		e.Seq, e.Time = uint64(i+1), clock
		s := mcpvisor.EventSummary{Seq: e.Seq, Began: e.Time, Count: 1, Last: e}
		f.summaries.Instance = "1"
		f.summaries.Summaries = append(f.summaries.Summaries, api.EventSummary{EventSummary: s, Text: s.String(), Last: api.Event{Event: e, Text: e.String(), Severity: e.Severity()}})
	}
	require.Contains(t, text(shown(t, f, 80, 24, "down", "down", "enter")), "✗ evicted for 1d02h: given up, not tried again by itself")
	require.Contains(t, text(shown(t, f, 80, 24, "down", "enter")), "◷ parked for 3.0s: waits until 12:05:00 for its next attempt")
	wide := text(shown(t, f, 180, 24))
	require.Contains(t, wide, "given up: server process")
	require.Contains(t, wide, "waits until 12:05:00: server process")
	m := shown(t, f, 80, 24, "e")
	require.Contains(t, oneLine(m), "parked, waits until 12:05:00: server process ended")
	require.Contains(t, oneLine(m), "search evicted, given up after 5 of 5 restarts")
	typeKeys(t, m, "enter")
	require.Contains(t, oneLine(m), "parked, waits until 12:05:00")
	help := text(shown(t, f, 80, 40, "?"))
	require.Regexp(t, `evicted +given up`, help)
	require.Regexp(t, `parked .* waits until`, help)
}
