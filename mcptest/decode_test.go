package mcptest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/mcptest/internal/rawjson"
)

func TestRawJSON_agrees_with_encoding_json(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var back string
		require.NoError(t, json.Unmarshal(rawjson.Quote(text), &back))
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), back)
		if plain, ok := rawjson.Text(rawjson.Quote(text)); ok {
			require.Equal(t, text, plain)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`))
	f.Add([]byte(`{"id":"\"","method":"a\u0041","params":{"_meta":[{"}":1}],"name":"ä"}}`))
	f.Add([]byte(`{"params":null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return
		}
		var e envelope
		if failure := e.decode(line); failure != nil {
			return
		}
		for _, part := range []json.RawMessage{e.ID, e.Result, e.Error, e.Params.Arguments, e.Params.Meta} {
			require.True(t, len(part) == 0 || json.Valid(part), "%q cut %q", line, part)
		}
	})
}
