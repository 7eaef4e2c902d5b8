package jsonrpc

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

func TestProgressToken(t *testing.T) {
	for want, c := range map[string]struct{ params, meta string }{
		`{"_meta":{"progressToken":7}}`:                 {},
		`{"_meta":{"progressToken":7},"a":1}`:           {params: `{"a":1}`},
		`{"_meta":{"progressToken":7,"v":"x"},"a":1}`:   {params: `{"a":1}`, meta: `{"v":"x"}`},
		`{"_meta":{"progressToken":7},"longer":[2, 3]}`: {params: `{"longer":[2, 3]}`, meta: `{}`},
	} {
		line := AppendRequest(nil, 7, transport.Request{Method: "m", Track: true, Params: json.RawMessage(c.params)}, json.RawMessage(c.meta))
		require.Equal(t, `{"jsonrpc":"2.0","id":7,"method":"m","params":`+want+"}\n", string(line))
	}
}
