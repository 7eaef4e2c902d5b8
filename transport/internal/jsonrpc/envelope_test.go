package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

var envelopes = []string{
	`{}`, ` { } `, `[]`, `null`, `7`, `"id"`, ``, `{`, `{"id"`, `{"id":`, `{"id":1`, `{"id":1}}`, `{"id":1}x`, `{"id":1,}`, `{,}`,
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"id":9,"result":[]}}`,
	`{"jsonrpc":"2.0","id":1073741825,"result":{"content":[{"type":"text","text":"}]\"{"}]}}`,
	` {"result" : [ 1 , 2 ] , "id" : "7" } `,
	`{"id":1,"method":"m","result":1}`, `{"method":"m","error":{}}`, `{"id":1,"result":null}`, `{"id":1,"result":null,"error":null}`, `{"id":1,"error":{"code":-1,"message":"m"},"result":null}`,
	`{"id":1,"id":2,"result":1,"result":2}`, `{"id":1,"error":{"code":1},"error":null,"result":2}`, `{"error":null,"error":{"code":1},"id":1}`,
	`{"\u0069d":1,"re\u0073ult":{}}`, `{"ID":1,"Result":{}}`, `{"id\u0000":1}`, `{"\"id\"":1}`, "{\"i\xffd\":1}",
	`{"id":1,"result":{"a":tru}}`, `{"id":1,"result":{"a":"\x"}}`, `{"id":1,"result":{"a":01}}`, `{"id":1,"result":[1}}`,
	"{\"id\":1,\"result\":\"a\tb\"}", `{"id":1,"result":}`, `{"id":1 "result":2}`, `{"id":1,"result":{"a":"\\"}}`,
	`{"id":1,"result":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
}

func TestScanEnvelope_agrees_with_encoding_json(t *testing.T) {
	for _, line := range envelopes {
		t.Run(line, func(t *testing.T) { requireSameMembers(t, []byte(line)) })
	}
	requireSameMembers(t, []byte(`{"id":1,"result":`+strings.Repeat("[", 9_999)+strings.Repeat("]", 9_999)+`}`))
}

func FuzzEnvelope(f *testing.F) {
	for _, line := range envelopes {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) { requireSameMembers(t, line) })
}

// requireSameMembers asserts that ScanEnvelope finds the same members as encoding/json. Text
// that encoding/json rejects is not an envelope, or it is marked as malformed.
func requireSameMembers(t *testing.T, line []byte) {
	t.Helper()
	e, ok := ScanEnvelope(line)
	var want map[string]json.RawMessage
	valid := json.Unmarshal(line, &want) == nil && want != nil
	require.Equal(t, valid, ok && !e.Malformed, "%q", line)
	if !ok {
		return
	}
	for _, part := range [][]byte{e.ID, e.Method, e.Result, e.Error} {
		require.True(t, part == nil || len(part) > 0, "an absent member is nil, a present one is not empty: %q", line)
	}
	if !valid {
		return
	}
	if string(want["error"]) == "null" { // counts as absent
		delete(want, "error")
	}
	require.Equal(t, string(want["id"]), string(e.ID), "%q", line)
	require.Equal(t, string(want["method"]), string(e.Method), "%q", line)
	require.Equal(t, string(want["result"]), string(e.Result), "%q", line)
	require.Equal(t, string(want["error"]), string(e.Error), "%q", line)

	_, hasMethod := want["method"]
	_, hasID := want["id"]
	_, hasResult := want["result"]
	_, hasError := want["error"]
	answers := !hasMethod && hasID && (hasResult || hasError)
	require.Equal(t, answers, e.IsResponse(), "%q", line)
	require.Equal(t, answers || hasMethod, e.IsMessage(), "%q", line)
}

// The id of a malformed response can still be read.
func TestScanEnvelope_malformed(t *testing.T) {
	for _, line := range []string{
		`{"id":12,"result":{"a":tru}}`,
		`{"id":12,"result":{"text":"bad \x escape"}}`,
		"{\"id\":12,\"result\":{\"text\":\"raw \t tab\"}}",
		`{"result":{"n":01.2.3},"id":12}`,
		`{"result":{"n":NaN,"s":"}\""},"id":12}`,
		`{"result":[1,2},"id":12}`,
		`{"id":12,"result":undefined}`,
	} {
		e, ok := ScanEnvelope([]byte(line))
		require.True(t, ok, line)
		require.True(t, e.Malformed, line)
		require.True(t, e.IsResponse(), line)
		id, ok := e.NumericID()
		require.True(t, ok, line)
		require.Equal(t, int64(12), id)
	}
	for _, line := range []string{`{"id":12,"result":{`, `{"id":12,"result":"a`, `{"id":12,"result":1} banner`, `id: 12`, `{id:12}`} {
		_, ok := ScanEnvelope([]byte(line))
		require.False(t, ok, line)
	}
}

func TestEnvelope_NumericID(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "0": 0, "-7": -7, `"42"`: 42, "1099511627777": 1<<40 + 1, "1.099511627776e+12": 1 << 40, "1099511627776.0": 1 << 40,
		`"1.099511627776E12"`: 1 << 40, "9223372036854775807": 1<<63 - 1,
	} {
		e := Envelope{ID: []byte(text)}
		got, ok := e.NumericID()
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "null", "1.5", `"a"`, `""`, `"`, "true", "[1]", "1e400", "NaN", `"NaN"`, `"Inf"`, "1e30", `"1 "`} {
		e := Envelope{ID: []byte(text)}
		_, ok := e.NumericID()
		require.False(t, ok, text)
	}
}

// Of an oversize answer only the two ends are known. FindID finds the id of the call in
// either, and ignores ids inside of the result.
func TestFindID(t *testing.T) {
	const id, other = FirstID + 5, FirstID + 77
	filler := strings.Repeat(`{"text":"lorem ipsum {[\""},`, 1000)
	inner := fmt.Sprintf(`{"id":%d,"sub":{"id":%d}},`, other, other)
	for name, line := range map[string]string{
		"in front":               fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[%s1]}}`, id, filler),
		"at the end":             fmt.Sprintf(`{"jsonrpc":"2.0","result":{"content":[%s1]},"id":%d}`, filler, id),
		"before the last member": fmt.Sprintf(`{"result":{"content":[%s1]},"id":%d,"jsonrpc":"2.0"}`, filler, id),
		"spaced":                 fmt.Sprintf(`{ "jsonrpc" : "2.0" , "id" : %d , "result" : [%s1] }`, id, filler),
		"as a string":            fmt.Sprintf(`{"id":"%d","result":[%s1]}`, id, filler),
		"an error":               fmt.Sprintf(`{"id":%d,"error":{"code":1,"message":"m","data":[%s1]}}`, id, filler),
		"others at the head":     fmt.Sprintf(`{"id":%d,"result":{"content":[%s%s1]}}`, id, inner, filler),
		"others at the end":      fmt.Sprintf(`{"id":%d,"result":{"content":[%s%s1]}}`, id, filler, inner),
		"behind others":          fmt.Sprintf(`{"result":{"content":[%s%s1]},"id":%d}`, inner, filler, id),
		"behind others, ended":   fmt.Sprintf(`{"result":{"content":[%s%s{"id":%d}]},"id":%d}`, filler, inner, other, id),
		"with odd escapes":       fmt.Sprintf(`{"id":%d,"result":"\\\"id\":%d,%s"}`, id, other, strings.Repeat(`\"id\":`, 1000)),
	} {
		head, tail := ClipEnds([]byte(line), nil)
		got, ok := FindID(head, tail)
		require.True(t, ok, name)
		require.Equal(t, id, got, name)
	}
	for name, line := range map[string]string{
		"no id":       fmt.Sprintf(`{"result":{"content":[%s1]}}`, filler),
		"only inside": fmt.Sprintf(`{"result":{"content":[%s%s%s1]}}`, inner, filler, inner),
		"ends inside": fmt.Sprintf(`{"result":[%s{"id":%d}]}`, filler, other),
		"no JSON":     strings.Repeat(fmt.Sprintf("id %d ", id), 300),
		"no number":   fmt.Sprintf(`{"id":"x","result":[%s1]}`, filler),
	} {
		head, tail := ClipEnds([]byte(line), nil)
		_, ok := FindID(head, tail)
		require.False(t, ok, name)
	}
}

// A number that is cut off at the end of an edge is not read as a shorter number.
func TestFindID_cut_number(t *testing.T) {
	const id = FirstID * 1000
	for pad := range 30 {
		front := fmt.Sprintf(`{"x":"%s","id":`, strings.Repeat("p", EdgeSize-30-len(`{"x":"","id":`)+pad))
		line := fmt.Sprintf(`%s%d,"result":"%s"}`, front, id, strings.Repeat("r", 5000))
		head, tail := ClipEnds([]byte(line), nil)
		if got, ok := FindID(head, tail); ok {
			require.Equal(t, id, got)
		}
	}
}

// Parameters with line breaks, deep nesting or invalid JSON must not break the line.
func TestAppendRequest_one_line(t *testing.T) {
	for _, text := range []string{"{\n", "{\r}", `{"a":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + "\r\n}"} {
		params := json.RawMessage(text)
		line := AppendRequest(nil, 7, &transport.Request{Method: "m", Params: params}, nil)
		require.Equal(t, len(line)-1, bytes.IndexAny(line, "\r\n"))
		require.Equal(t, text, string(params), "the slice of the caller is not changed")
	}
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
