package facade_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// A line break in deeply nested arguments must not begin another message.
func TestCheckArguments_keeps_a_message_on_one_line(t *testing.T) {
	c := newClient(t)
	var smuggled atomic.Bool
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(_, line string) string {
		if strings.HasPrefix(line, `{"jsonrpc":"2.0","id":7,`) {
			smuggled.Store(true)
		}
		return ""
	})}))
	for depth := 8997; depth <= 9001; depth++ {
		args := `{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `,"b":[` + "\n" +
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete_all","arguments":{}}}` + "\r\n]}"
		_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage(args), facade.WithTimeout(10*time.Second))
		if tooDeep := depth+1 > 9000; tooDeep { // the object around it is a level too
			require.ErrorIs(t, err, mcpvisor.ErrInvalid)
		} else {
			require.NoError(t, err)
		}
	}
	require.False(t, smuggled.Load())
}

// Some servers end a line at U+2028 and U+2029, so they are escaped in all arguments.
func TestCallTool_escapes_line_separators(t *testing.T) {
	c := newClient(t)
	var got atomic.Value
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", InMemory: rawServer(func(method, line string) string {
		if method == "tools/call" {
			got.Store(line)
		}
		return ""
	})}))
	for _, args := range []map[string]any{{"t": "\u2028\u2029"}, {"t": json.RawMessage("\"\u2028\u2029\"")}} {
		_, err := c.CallTool(t.Context(), "s/x", args)
		require.NoError(t, err)
		require.Contains(t, got.Load(), `{"t":"\u2028\u2029"}`)
	}
	_, err := c.CallToolRaw(t.Context(), "s/x", json.RawMessage("{\"t\":\"\u2028\u2029\"}"))
	require.NoError(t, err)
	require.Contains(t, got.Load(), `{"t":"\u2028\u2029"}`)
}
