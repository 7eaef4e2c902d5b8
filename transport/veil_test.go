package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/messages"
)

// TestVeilKnowsTheFormsOfASecret: in JSON, in pieces of it, and in URLs.
func TestVeilKnowsTheFormsOfASecret(t *testing.T) {
	var found secretList
	found.add("abc/def\"ghi")
	v := veil(found.replacer().Replace)
	for _, text := range []string{`abc/def"ghi`, `{"half": "abc/def\"ghi`, `{"half": "abc\/def\"ghi`} {
		require.NotContains(t, v.text(text), "ghi", text)
	}
	for _, raw := range []string{`["\u0061bc/def\"ghi"]`, `{"a":[{"b":["\u0061bc\/def\"ghi"]}]}`, `{"\u0061bc\/def\"ghi":1}`} {
		require.NotContains(t, string(v.json([]byte(raw))), "ghi", raw)
	}
	require.JSONEq(t, `["\u0061"]`, string(v.json([]byte(`["\u0061"]`))))

	v = veilOf(&messages.Stdio{Env: map[string]string{"DATABASE": "postgres://me:p%40ssword@host/db"}})
	for _, text := range []string{"p@ssword", "p%40ssword"} {
		require.Equal(t, "bad ***", v.text("bad "+text))
	}
}
