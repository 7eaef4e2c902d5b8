package mcptest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyJSON draws a value of any shape.
func anyJSON(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Float64Range(-1e9, 1e9).AsAny(),
		rapid.StringOf(rapid.RuneFrom([]rune("ab\"\\{}[],: \t\nä€"))).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOfN(anyJSON(depth-1), 0, 3).AsAny(),
			rapid.MapOfN(rapid.StringMatching(`[a-z{}\[\],:]{0,4}`), anyJSON(depth-1), 0, 3).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// TestMembersAgreeWithEncodingJSON: whatever the shape, eachMember finds what
// encoding/json finds.
func TestMembersAgreeWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.StringMatching(`[a-z{}\[\],:]{0,6}`), anyJSON(3), 0, 5).Draw(t, "object")
		text, err := json.Marshal(object)
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "indented") {
			var b bytes.Buffer
			require.NoError(t, json.Indent(&b, text, "\t", " "))
			text = b.Bytes()
		}
		got := map[string]json.RawMessage{}
		eachMember(text, func(key, value []byte) { got[string(key)] = value })
		want := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal(text, &want))
		require.Equal(t, want, got)
	})
}

func TestQuoteAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var back string
		require.NoError(t, json.Unmarshal(quote(text), &back))
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), back)
		if plain, ok := plainText(quote(text)); ok {
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
