package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

func TestLogText(t *testing.T) {
	for data, want := range map[string]string{
		`"plain"`: "plain", `"a\nb\u00e9"`: "a\nb\u00e9", `{"a":1}`: `{"a":1}`, `7`: "7", `""`: "", `null`: "null",
	} {
		require.Equal(t, want, logText([]byte(data)))
	}
	// A long text is cut at any place, also inside of an escape sequence.
	for _, unit := range []string{"x", "\n", "\x00", "\"", `\`, "é", "😀"} {
		for shift := range 7 {
			text := strings.Repeat("y", shift) + strings.Repeat(unit, 4*maxLogText/len(unit)+10)
			got := logText(mustMarshal(text))
			require.True(t, utf8.ValidString(got))
			require.Greater(t, len(got), maxLogText/2)
			require.LessOrEqual(t, len(got), 4*maxLogText+16)
			require.True(t, strings.HasPrefix(text, strings.TrimRight(got, "\uFFFD")), "%.20q", text)
			require.LessOrEqual(t, len(logText([]byte(`{"a":`+string(mustMarshal(text))+`}`))), 4*maxLogText)
		}
	}
}

func mustMarshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// The reader reuses the buffer of the line.
func TestNotifications_Handle_copies_texts(t *testing.T) {
	for method, params := range map[string]string{
		`"notifications/message"`:                    `{"level":"error","logger":"db","data":"lost"}`,
		`"notifications/resources/updated"`:          `{"uri":"file:///a"}`,
		`"notifications/subscriptions/acknowledged"`: `{"notifications":{"resourceSubscriptions":["file:///a"]}}`,
	} {
		var notices []transport.Notice
		n := new(Notifications)
		n.OnNotice(func(one transport.Notice) { notices = append(notices, one) })
		line := []byte(params)
		require.Equal(t, Handled, n.Handle([]byte(method), line))
		before := mustMarshal(notices)
		for i := range line {
			line[i] = '#'
		}
		require.Equal(t, string(before), string(mustMarshal(notices)))
	}
}

// Invalid parameters are malformed. Texts are cut, and have no secrets and no control
// characters.
func TestNotifications_Handle_checks_and_cleans(t *testing.T) {
	var n Notifications
	var notices []transport.Notice
	n.OnNotice(func(one transport.Notice) { notices = append(notices, one) })
	n.Redact = func(text string) string { return strings.ReplaceAll(text, "canary", "***") }
	for _, params := range []string{`{}`, `{"uri":""}`, `{"uri":7}`, `{"uri":"a:` + strings.Repeat("x", maxURI) + `"}`, `[]`, ``} {
		require.Equal(t, Malformed, n.Handle([]byte(`"notifications/resources/updated"`), []byte(params)), params)
	}
	require.Empty(t, notices)
	long := `canary \u001b[1m` + strings.Repeat("x", 2*maxLogText)
	require.Equal(t, Handled, n.Handle([]byte(`"notifications/message"`),
		[]byte(`{"level":"`+long+`","logger":"`+long+`","data":"`+long+`"}`)))
	require.Len(t, notices, 1)
	for text, most := range map[string]int{notices[0].Log.Text: maxLogText, notices[0].Log.Logger: maxServerName, notices[0].Log.Level: 32} {
		require.LessOrEqual(t, len(text), most)
		require.NotContains(t, text, "\x1b")
	}
	require.NotContains(t, notices[0].Log.Text+notices[0].Log.Logger, "canary")
}

// A notification with very many values is not decoded.
func TestNotifications_Handle_too_large(t *testing.T) {
	n := new(Notifications)
	n.OnNotice(func(transport.Notice) { t.Error("the notification was passed on") })
	long := []byte(`{"notifications":{"resourceSubscriptions":[""` + strings.Repeat(`,""`, 400_000) + `]}}`)
	require.Equal(t, Malformed, n.Handle([]byte(`"notifications/subscriptions/acknowledged"`), long))
}

// An acknowledgement names its listen stream by the id of the request. Another value than a
// number names no stream.
func TestNotifications_Handle_acknowledged(t *testing.T) {
	for meta, want := range map[string]int64{
		`"_meta":{"io.modelcontextprotocol/subscriptionId":1099511627777},`:   1099511627777,
		`"_meta":{"io.modelcontextprotocol/subscriptionId":"1099511627777"},`: 0,
		`"_meta":{},`: 0,
		`"_meta":[],`: 0,
		``:            0,
	} {
		var notices []transport.Notice
		n := new(Notifications)
		n.OnNotice(func(one transport.Notice) { notices = append(notices, one) })
		params := `{` + meta + `"notifications":{"resourceSubscriptions":["x:a"]}}`
		require.Equal(t, Handled, n.Handle([]byte(`"notifications/subscriptions/acknowledged"`), []byte(params)))
		require.Equal(t, []transport.Notice{{Kind: transport.Acknowledged, Honored: []string{"x:a"}, Stream: want}}, notices, strings.TrimSpace(meta))
	}
}

// The number of queued reports and the bytes of their messages are bounded. Deliver makes
// room for further reports.
func TestProgressQueue_bounds(t *testing.T) {
	for _, size := range []int{0, MaxProgressMessage} {
		delivered := 0
		q := NewProgressQueue(&transport.Request{Progress: func(mcpvisor.Progress) { delivered++ }})
		most := maxQueuedReports
		if size > 0 {
			most = MaxQueuedProgress / size
		}
		for range 2 {
			delivered = 0
			for range most {
				require.True(t, q.Push(mcpvisor.Progress{Message: strings.Repeat("x", size)}))
			}
			require.False(t, q.Push(mcpvisor.Progress{Message: strings.Repeat("x", size)}))
			q.Deliver()
			require.Equal(t, most, delivered)
		}
	}
}

func TestReadProgress_cuts_a_long_message(t *testing.T) {
	_, report, ok := ReadProgress([]byte(`{"progressToken":1,"progress":1,"message":"`+strings.Repeat(`é`, MaxProgressMessage)+`"}`), new(Notifications))
	require.True(t, ok)
	require.LessOrEqual(t, len(report.Message), MaxProgressMessage)
	require.True(t, strings.HasSuffix(report.Message, "(cut)"))
}

// The reader reuses the buffer of the line.
func TestReadProgress_copies_the_message(t *testing.T) {
	line := []byte(`{"progressToken":7,"progress":1,"message":"half way"}`)
	_, p, ok := ReadProgress(line, new(Notifications))
	require.True(t, ok)
	for i := range line {
		line[i] = '#'
	}
	require.Equal(t, "half way", p.Message)
}
