package textresult_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/textresult"
)

var toolResults = map[string]bool{ // whether the short way reads it
	`{"content":[{"type":"text","text":"hello"}]}`:                                       true,
	`{"content":[{"text":"a\n\"b\" \u00e9 \ud83d\ude00","type":"text"}],"isError":true}`: true,
	`{"content":[]}`: true,
	` { "content" : [ {"type":"text","text":""} , {"type":"text","text":"b"} ] , "x":1 } `: true,
	`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":[1,2.5,null]}}`:      true,
	`{"structuredContent":null,"content":[],"isError":false,"_meta":{"k":"v"}}`:            true,
	`{"content":[],"resultType":"complete"}`:                                               true,
	`{"content":[],"resultType":"input_required","inputRequests":{}}`:                      false,
	`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`:                  false,
	`{"content":[{"type":"text","text":"x","annotations":{"priority":1}}]}`:                false,
	`{"content":[{"type":"text","text":"x"}],"content":[]}`:                                false,
	`{"content":[{"type":"text","text":"x","text":"y"}]}`:                                  false,
	`{"content":[],"isError":true,"isError":false}`:                                        false,
	`{"content":[],"inputRequests":{}}`:                                                    false,
	`{"content":[],"requestState":"x"}`:                                                    false,
	`{"content":null}`:                                                                     false,
	`{}`:                                                                                   false,
	`{"Content":[]}`:                                                                       false,
}

func TestDecode_agrees_with_the_sdk(t *testing.T) {
	for raw, short := range toolResults {
		require.Equal(t, short, textresult.Decode(t.Context(), []byte(raw)) != nil, raw)
		sameResult(t, []byte(raw))
	}
}

// A server may send any number of blocks: those beyond the bound are not even read.
func TestParse_stops_at_its_bound(t *testing.T) {
	const most = 1000
	content := func(blocks int) []byte {
		return []byte(`{"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":""},`, blocks), ",") + `]}`)
	}
	_, ok := textresult.Parse(t.Context(), content(most), most)
	require.True(t, ok)
	_, ok = textresult.Parse(t.Context(), content(most+1), most)
	require.False(t, ok)

	many := content(100 * most)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, ok = textresult.Parse(t.Context(), many, most)
	runtime.ReadMemStats(&after)
	require.False(t, ok)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10))
}

func FuzzDecode(f *testing.F) {
	for raw := range toolResults {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if json.Valid(raw) { // the session has seen to that
			sameResult(t, raw)
		}
	})
}

func sameResult(t *testing.T, raw []byte) {
	t.Helper()
	short := textresult.Decode(t.Context(), raw)
	if short == nil {
		return
	}
	long := new(mcp.CallToolResult)
	require.NoError(t, long.UnmarshalJSON(raw), "%q", raw)
	require.Equal(t, long, short, "%q", raw)
}
