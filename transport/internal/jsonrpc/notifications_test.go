package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

func TestTextOf(t *testing.T) {
	for data, want := range map[string]string{
		`"plain"`: "plain", `"a\nb\u00e9"`: "a\nb\u00e9", `{"a":1}`: `{"a":1}`, `7`: "7", `""`: "", `null`: "null",
	} {
		require.Equal(t, want, logText([]byte(data)))
	}
	// Long ones are cut anywhere, in the middle of an escape as well.
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

// What is told outlives the line that it was read from.
func TestNoticesKeepNothingOfTheLine(t *testing.T) {
	for method, params := range map[string]string{
		`"notifications/message"`:                    `{"level":"error","logger":"db","data":"lost"}`,
		`"notifications/resources/updated"`:          `{"uri":"file:///a"}`,
		`"notifications/subscriptions/acknowledged"`: `{"notifications":{"resourceSubscriptions":["file:///a"]}}`,
	} {
		var told []transport.Notice
		n := new(Notifications)
		n.OnNotice(func(one transport.Notice) { told = append(told, one) })
		line := []byte(params)
		require.Equal(t, Handled, n.Handle([]byte(method), line))
		before := mustMarshal(told)
		for i := range line {
			line[i] = '#'
		}
		require.Equal(t, string(before), string(mustMarshal(told)))
	}
}

func TestProgressKeepsNothingOfTheLine(t *testing.T) {
	line := []byte(`{"progressToken":7,"progress":1,"message":"half way"}`)
	_, p, ok := ReadProgress(line, new(Notifications))
	require.True(t, ok)
	for i := range line {
		line[i] = '#'
	}
	require.Equal(t, "half way", p.Message)
}

// What cannot be told is bad; what is told is short, plain and without secrets.
func TestNoticesAreFitToBeTold(t *testing.T) {
	var n Notifications
	var told []transport.Notice
	n.OnNotice(func(one transport.Notice) { told = append(told, one) })
	n.Redact = func(text string) string { return strings.ReplaceAll(text, "canary", "***") }
	for _, params := range []string{`{}`, `{"uri":""}`, `{"uri":7}`, `{"uri":"a:` + strings.Repeat("x", maxURI) + `"}`, `[]`, ``} {
		require.Equal(t, Malformed, n.Handle([]byte(`"notifications/resources/updated"`), []byte(params)), params)
	}
	require.Empty(t, told)
	long := `canary \u001b[1m` + strings.Repeat("x", 2*maxLogText)
	require.Equal(t, Handled, n.Handle([]byte(`"notifications/message"`),
		[]byte(`{"level":"`+long+`","logger":"`+long+`","data":"`+long+`"}`)))
	require.Len(t, told, 1)
	for text, most := range map[string]int{told[0].Log.Text: maxLogText, told[0].Log.Logger: maxServerName, told[0].Log.Level: 32} {
		require.LessOrEqual(t, len(text), most)
		require.NotContains(t, text, "\x1b")
	}
	require.NotContains(t, told[0].Log.Text+told[0].Log.Logger, "canary")
}
