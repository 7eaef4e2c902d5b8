package mcptest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

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
