package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// However deep the text, and whatever it is: it must not end its line.
func TestARequestIsOneLine(t *testing.T) {
	for _, text := range []string{"{\n", "{\r}", `{"a":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + "\r\n}"} {
		params := json.RawMessage(text)
		line := AppendRequest(nil, 7, transport.Request{Method: "m", Params: params}, nil)
		require.Equal(t, len(line)-1, bytes.IndexAny(line, "\r\n"))
		require.Equal(t, text, string(params), "they are the caller's")
	}
}

func TestRequestLine(t *testing.T) {
	meta := json.RawMessage(`{"v":"2026-07-28"}`)
	for name, c := range map[string]struct {
		params string
		meta   json.RawMessage
		want   string
	}{
		"bare":             {"", nil, `{"jsonrpc":"2.0","id":7,"method":"m"}`},
		"parameters":       {` {"b": 1.0, "a":2} `, nil, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"b": 1.0, "a":2}}`},
		"none":             {`{}`, nil, `{"jsonrpc":"2.0","id":7,"method":"m","params":{}}`},
		"meta alone":       {"", meta, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"v":"2026-07-28"}}}`},
		"meta, none":       {` { } `, meta, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"v":"2026-07-28"}}}`},
		"meta, parameters": {`{ "a":1}`, meta, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"v":"2026-07-28"},"a":1}}`},
		"line breaks":      {"{\n\t\"a\": \"x\\ny\",\r\n\"b\":[1,\n2]\n}", nil, `{"jsonrpc":"2.0","id":7,"method":"m","params":{ ` + "\t" + `"a": "x\ny",  "b":[1, 2] }}`},
		"breaks and meta":  {"{\n\"a\":1}\n", meta, `{"jsonrpc":"2.0","id":7,"method":"m","params":{"_meta":{"v":"2026-07-28"},"a":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			line := AppendRequest([]byte("left alone "), 7, transport.Request{Method: "m", Params: json.RawMessage(c.params)}, c.meta)
			require.Equal(t, "left alone "+c.want+"\n", string(line))
			require.True(t, json.Valid(line[len("left alone "):]))
		})
	}
}
