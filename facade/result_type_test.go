package facade_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// A result of another type than complete is refused, whatever its other members are.
func TestResultType_other_than_complete(t *testing.T) {
	for raw, good := range map[string]bool{
		`{"content":[{"type":"text","text":"x"}],"resultType":"complete"}`:                true,
		`{"content":[{"type":"text","text":"x"}]}`:                                        true,
		`{"content":[{"type":"text","text":"x"}],"resultType":null}`:                      true,
		`{"content":[{"type":"text","text":"x"}],"structuredContent":{"resultType":"t"}}`: true,
		`{"content":[{"type":"text","text":"x"}],"resultType":"other"}`:                   false,
		`{"resultType":"task","content":[{"type":"text","text":"x"}]}`:                    false,
		`{"\u0072esultType":"task","content":[]}`:                                         false,
		`{"content":[],"resultType":7}`:                                                   false,
		`{"content":[],"resultType":""}`:                                                  false,
	} {
		c := newClient(t)
		require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "m", InMemory: rawServer(func(method, _ string) string {
			if method == "tools/call" {
				return raw
			}
			return ""
		})}))
		r, err := c.CallTool(t.Context(), "m/x", nil)
		if good {
			require.NoError(t, err, raw)
			continue
		}
		require.Nil(t, r)
		require.ErrorIs(t, err, mcpvisor.ErrProtocol, raw)
		require.ErrorContains(t, err, "resultType")
		verbatim, err := c.CallToolRaw(t.Context(), "m/x", nil)
		require.NoError(t, err)
		require.Equal(t, raw, string(verbatim))
	}
}
