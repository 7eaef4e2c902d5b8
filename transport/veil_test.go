package transport

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// TestVeilKnowsTheFormsOfASecret: in JSON, in pieces of it, and in URLs.
func TestVeilKnowsTheFormsOfASecret(t *testing.T) {
	var found secret.List
	found.Add("abc/def\"ghi")
	v := veil(found.Replacer().Replace)
	for _, text := range []string{`abc/def"ghi`, `{"half": "abc/def\"ghi`, `{"half": "abc\/def\"ghi`} {
		require.NotContains(t, v.text(text), "ghi", text)
	}
	for _, raw := range []string{`["\u0061bc/def\"ghi"]`, `{"a":[{"b":["\u0061bc\/def\"ghi"]}]}`, `{"\u0061bc\/def\"ghi":1}`} {
		require.NotContains(t, string(v.json([]byte(raw))), "ghi", raw)
	}
	require.JSONEq(t, `["\u0061"]`, string(v.json([]byte(`["\u0061"]`))))

	v = veilOf(&mcpvisor.Stdio{Env: map[string]string{"DATABASE": "postgres://me:p%40ssword@host/db"}})
	for _, text := range []string{"p@ssword", "p%40ssword"} {
		require.Equal(t, "bad ***", v.text("bad "+text))
	}
}

// TestVeilMemory is about long errors: what is allocated is a small multiple of
// its length, also when it is made of many small elements, and it is hidden all
// the same.
func TestVeilMemory(t *testing.T) {
	var found secret.List
	found.Add("canary-0815")
	v := veil(found.Replacer().Replace)
	for name, part := range map[string]string{"numbers": `1,`, "objects": `{"a":{"b":[]}},`, "texts": `"text",`, "escapes": `"\u0061\n",`} {
		t.Run(name, func(t *testing.T) {
			raw := json.RawMessage(`[` + strings.Repeat(part, 2<<20/len(part)) + `"\u0063anary-0815","canary-0815"]`)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			hidden := v.json(raw)
			runtime.ReadMemStats(&after)
			require.NotContains(t, string(hidden), "anary")
			require.True(t, json.Valid(hidden))
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(12*len(raw)))
		})
	}
}
