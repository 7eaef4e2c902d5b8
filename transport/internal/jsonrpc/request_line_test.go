package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// Parameters with line breaks, deep nesting or invalid JSON must not break the line.
func TestAppendRequest_one_line(t *testing.T) {
	for _, text := range []string{"{\n", "{\r}", `{"a":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + "\r\n}"} {
		params := json.RawMessage(text)
		line := AppendRequest(nil, 7, &transport.Request{Method: "m", Params: params}, nil)
		require.Equal(t, len(line)-1, bytes.IndexAny(line, "\r\n"))
		require.Equal(t, text, string(params), "the slice of the caller is not changed")
	}
}

// Some servers end a line at U+2028 and U+2029. Other characters with the same first byte
// stay as they are, and cost nothing.
func TestOneLine_separators(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\":\"\u2028\u2029\"}":               `{"a":"\u2028\u2029"}`,
		"{\"\u2029\":\n\"x\u2028\u2026\"}\u2028": `{"\u2029": "x\u2028` + "\u2026" + `"}\u2028`,
		"\xe2\x80":                               "\xe2\x80",
		"\xe2\xe2\x80\xa8":                       "\xe2" + `\u2028`,
	} {
		given := json.RawMessage(text)
		require.Equal(t, want, string(OneLine(given)))
		require.Equal(t, text, string(given), "the slice of the caller is not changed")
	}
	plain := json.RawMessage(strings.Repeat("\u2026 \u2014", 100))
	require.Zero(t, testing.AllocsPerRun(10, func() { OneLine(plain) }))
}

func TestAppendRequest(t *testing.T) {
	meta := json.RawMessage(`{"v":"2026-07-28"}`)
	for name, c := range map[string]struct {
		params string
		meta   json.RawMessage
		want   string
	}{
		"bare":             {"", nil, `{"jsonrpc":"2.0","id":7,"method":"m"}`},
		"parameters":       {` {"b": 1.0, "a":2} `, nil, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"b": 1.0, "a":2}}`},
		"empty":            {`{}`, nil, `{"jsonrpc":"2.0","id":7,"method":"m","params":{}}`},
		"meta alone":       {"", meta, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"v":"2026-07-28"}}}`},
		"meta, empty":      {` { } `, meta, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"v":"2026-07-28"}}}`},
		"meta, parameters": {`{ "a":1}`, meta, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"v":"2026-07-28"},"a":1}}`},
		"line breaks":      {"{\n\t\"a\": \"x\\ny\",\r\n\"b\":[1,\n2]\n}", nil, `{"jsonrpc":"2.0","id":7,"method":"m","params":{ ` + "\t" + `"a": "x\ny",  "b":[1, 2] }}`},
		"breaks and meta":  {"{\n\"a\":1}\n", meta, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"v":"2026-07-28"},"a":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			line := AppendRequest([]byte("left alone "), 7, &transport.Request{Method: "m", Params: json.RawMessage(c.params)}, c.meta)
			require.Equal(t, "left alone "+c.want+"\n", string(line))
			require.True(t, json.Valid(line[len("left alone "):]))
		})
	}
}

// The log level in _meta exists in the modern era only.
func TestAppendRequest_no_log_level_in_the_legacy_era(t *testing.T) {
	for _, track := range []bool{false, true} {
		line := AppendRequest(nil, 7, &transport.Request{Method: "m", LogLevel: "debug", Track: track}, nil)
		require.NotContains(t, string(line), "debug")
	}
}

func TestAppendRequest_progress_token(t *testing.T) {
	for want, c := range map[string]struct{ params, meta string }{
		`{"_meta":{"progressToken":7}}`:                 {},
		`{"_meta":{"progressToken":7},"a":1}`:           {params: `{"a":1}`},
		`{"_meta":{"progressToken":7,"v":"x"},"a":1}`:   {params: `{"a":1}`, meta: `{"v":"x"}`},
		`{"_meta":{"progressToken":7},"longer":[2, 3]}`: {params: `{"longer":[2, 3]}`, meta: `{}`},
	} {
		line := AppendRequest(nil, 7, &transport.Request{Method: "m", Track: true, Params: json.RawMessage(c.params)}, json.RawMessage(c.meta))
		require.Equal(t, `{"jsonrpc":"2.0","id":7,"method":"m","params":`+want+"}\n", string(line))
	}
}

// Members of the host come after those of the session, and before those of the era. An
// empty object adds nothing.
func TestAppendRequest_meta_of_the_host(t *testing.T) {
	const host = " {\n\"traceparent\":\"00-ab-cd-01\", \"tracestate\":\"a=b\"} "
	for want, r := range map[string]transport.Request{
		`{"_meta":{ "traceparent":"00-ab-cd-01", "tracestate":"a=b"}}`: {Meta: json.RawMessage(host)},
		`{"_meta":{"traceparent":"x"},"a":1}`:                          {Meta: json.RawMessage(`{"traceparent":"x"}`), Params: json.RawMessage(`{"a":1}`)},
		`{"_meta":{"progressToken":7,"traceparent":"x"},"a":1}`:        {Meta: json.RawMessage(`{"traceparent":"x"}`), Params: json.RawMessage(`{"a":1}`), Track: true},
		`{"_meta":{"progressToken":7}}`:                                {Meta: json.RawMessage(` { } `), Track: true},
	} {
		r.Method = "m"
		line := string(AppendRequest(nil, 7, &r, nil))
		require.JSONEq(t, `{"jsonrpc":"2.0","id":7,"method":"m","params":`+want+"}", line)
		require.Equal(t, len(line)-1, strings.IndexAny(line, "\r\n"), "it is one line")
	}
	line := string(AppendRequest(nil, 7, &transport.Request{Method: "m", Meta: json.RawMessage(`{"t":"x"}`), Track: true, LogLevel: "info"}, json.RawMessage(`{"v":"y"}`)))
	require.JSONEq(t, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"info","t":"x","v":"y"}}}`, line)
	bare := string(AppendRequest(nil, 7, &transport.Request{Method: "m", Meta: json.RawMessage(`{}`)}, nil))
	require.NotContains(t, bare, "_meta")
}
