package mcptest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/test/fixture/junk"
)

func TestDefaultTools(t *testing.T) {
	withSession(t, Script{}, func(c *rawClient) {
		c.call(1, "echo", `{"text":"ä\n\"quoted\""}`)
		require.Equal(t, "ä\n\"quoted\"", c.result().Text)
		c.call(2, "add", `{"a":1.5,"b":2}`)
		require.JSONEq(t, `{"content":[{"type":"text","text":"{\"sum\":3.5}"}],"structuredContent":{"sum":3.5}}`, string(c.result().Result))
		c.call(3, "fail", `{"text":"as asked"}`)
		a := c.result()
		require.True(t, a.IsError)
		require.Equal(t, "as asked", a.Text)
		c.call(4, "big", `{"bytes":100000}`)
		require.Len(t, c.result().Text, 100000)
		c.call(5, "stderr", `{"text":"a line"}`)
		require.Equal(t, "written", c.result().Text)
		require.Equal(t, "a line\n", c.stderr.String())
		c.call(6, "junk", `{"count":2}`)
		require.Equal(t, junk.Kinds[0]+"\n", c.line())
		require.Equal(t, junk.Kinds[1]+"\n", c.line())
		require.Equal(t, "written", c.result().Text)
		c.call(7, "fork", `{}`)
		require.True(t, c.result().IsError, "there is no process to fork")
		c.call(8, "nonesuch", `{}`)
		require.EqualValues(t, -32602, c.answer().Error.Code)
		c.call(9, "echo", `{"text":12}`)
		require.EqualValues(t, -32602, c.answer().Error.Code)
	})
}

func TestSleep_concurrent_and_cancelled(t *testing.T) {
	withSession(t, Script{}, func(c *rawClient) {
		begun := time.Now()
		c.call(1, "sleep", `{"ms":2000}`)
		c.call(2, "sleep", `{"ms":1000}`)
		c.call(3, "sleep", `{"ms":1500}`)
		c.call(4, "hang", `{}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		require.JSONEq(t, "2", string(c.result().ID))
		require.JSONEq(t, "1", string(c.result().ID))
		require.Equal(t, 2*time.Second, time.Since(begun))
		c.requireNoOutput()
		require.NoError(t, c.stdin.Close())
		require.NoError(t, c.requireExit(), "the end of stdin ends the call that hangs")
	})
}

func TestCrash_ends_the_incarnation(t *testing.T) {
	withSession(t, Script{}, func(c *rawClient) {
		c.call(1, "crash", `{"code":0}`)
		var exit *ExitError
		require.ErrorAs(t, c.requireExit(), &exit)
		require.Zero(t, exit.Code)
	})
}

func TestSlowProgress_only_with_token(t *testing.T) {
	withSession(t, Script{}, func(c *rawClient) {
		c.call(1, "slow_progress", `{"steps":2}`)
		require.JSONEq(t, "1", string(c.result().ID))
		c.request(2, "tools/call", `{"name":"slow_progress","arguments":{"steps":2},"_meta":{"progressToken":"p"}}`)
		for step := 1; step <= 2; step++ {
			a := c.answer()
			require.Equal(t, "notifications/progress", a.Method)
			var p struct {
				ProgressToken   string
				Progress, Total int
			}
			require.NoError(t, json.Unmarshal(a.Params, &p))
			require.Equal(t, "p", p.ProgressToken)
			require.Equal(t, [2]int{step, 2}, [2]int{p.Progress, p.Total})
		}
		require.JSONEq(t, "2", string(c.result().ID))
	})
}

func TestAddTool_and_RemoveTool(t *testing.T) {
	withSession(t, Script{}, func(c *rawClient) {
		c.call(1, "add_tool", `{"name":"fresh"}`)
		require.Equal(t, "notifications/tools/list_changed", c.answer().Method)
		require.Equal(t, "added fresh", c.result().Text)
		c.call(2, "fresh", `{"any":"thing"}`)
		require.JSONEq(t, `{"any":"thing"}`, c.result().Text)
		c.call(3, "remove_tool", `{"name":"fresh"}`)
		require.Equal(t, "notifications/tools/list_changed", c.answer().Method)
		c.result()
		names, _ := page(t, c, 4, "")
		require.NotContains(t, names, `"fresh"`)
		require.Len(t, names, len(DefaultTools()))
		c.call(5, "remove_tool", `{"name":"fresh"}`)
		require.True(t, c.result().IsError)
	})
}

func TestAsk_reaches_the_client(t *testing.T) {
	withSession(t, Script{}, func(c *rawClient) {
		c.call(1, "ask", `{"method":"roots/list"}`)
		a := c.answer()
		require.Equal(t, "roots/list", a.Method)
		c.send(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, a.ID)
		require.JSONEq(t, `{"roots":[]}`, c.result().Text)
	})
}

func TestScript_Tools(t *testing.T) {
	s := Script{ExtraTools: 1, PageSize: 2, Tools: []ToolDef{
		{Name: "fixed", Text: "always", Structured: json.RawMessage(`{"n":1}`)},
		{Name: "broken", Text: "no", IsError: true},
		{Name: "safe_count", As: "count", Annotations: json.RawMessage(`{"idempotentHint":true}`)},
	}}
	withSession(t, s, func(c *rawClient) {
		names, next := page(t, c, 1, "")
		require.Equal(t, []string{`"fixed"`, `"broken"`}, names)
		names, next = page(t, c, 2, next)
		require.Equal(t, []string{`"safe_count"`, `"tool_0000"`}, names)
		require.Empty(t, next)
		c.request(3, "tools/list", `{"cursor":"invented"}`)
		require.EqualValues(t, -32602, c.answer().Error.Code)
		c.call(4, "fixed", `{}`)
		a := c.result()
		require.Equal(t, "always", a.Text)
		require.Contains(t, string(a.Result), `"structuredContent":{"n":1}`)
		c.call(5, "broken", `{}`)
		require.True(t, c.result().IsError)
		c.call(6, "safe_count", `{"key":"k"}`)
		require.JSONEq(t, `{"key":"k","executions":1}`, c.result().Text)
		c.call(7, "tool_0000", `{"x":1}`)
		require.JSONEq(t, `{"x":1}`, c.result().Text)
	})
}
