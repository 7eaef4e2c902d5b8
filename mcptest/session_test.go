package mcptest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// modernParams returns params with the _meta of 2026-07-28; rest begins with a comma.
func modernParams(rest string) string {
	return `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}` + rest + `}`
}

func TestSession_before_initialize_only_ping(t *testing.T) {
	withRawClient(t, Script{}, func(c *rawClient) {
		c.requirePing(1)
		c.request(2, "tools/list", "{}")
		require.EqualValues(t, -32600, c.answer().Error.Code)
		c.initialize()
		c.request(3, "tools/list", "{}")
		c.result()
	})
}

func TestSession_modern_without_handshake(t *testing.T) {
	withRawClient(t, Script{Instructions: "be nice"}, func(c *rawClient) {
		c.request(1, "tools/call", modernParams(`,"name":"echo","arguments":{"text":"at once"}`))
		a := c.result()
		require.Equal(t, "at once", a.Text)
		require.Contains(t, string(a.Result), `"resultType":"complete"`)
		c.request(2, "server/discover", modernParams(""))
		require.JSONEq(t, `{
			"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "instructions": "be nice",
			"supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
			"capabilities": {
				"tools": {"listChanged": true}, "prompts": {"listChanged": true},
				"resources": {"listChanged": true, "subscribe": true}},
			"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "mcptest", "version": "1.0.0"}}
		}`, string(c.result().Result))
		c.request(3, "ping", modernParams(""))
		require.EqualValues(t, -32601, c.answer().Error.Code)
		c.request(4, "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)
		require.EqualValues(t, -32602, c.answer().Error.Code, "client capabilities are missing")
		c.request(5, "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}`)
		require.EqualValues(t, -32022, c.answer().Error.Code)
	})
}

func TestSession_modern_only_rejects_initialize(t *testing.T) {
	withRawClient(t, Script{Versions: []string{version20260728}}, func(c *rawClient) {
		c.request(1, "initialize", `{"protocolVersion":"2025-11-25"}`)
		e := c.answer().Error
		require.EqualValues(t, -32022, e.Code)
		require.JSONEq(t, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`, string(e.Data))
		c.request(2, "ping", "{}")
		require.EqualValues(t, -32601, c.answer().Error.Code)
		c.request(3, "tools/list", "{}")
		require.EqualValues(t, -32602, c.answer().Error.Code)
	})
}

func TestSession_legacy_only_rejects_discover(t *testing.T) {
	withRawClient(t, Script{Versions: []string{version20241105, version20250618}}, func(c *rawClient) {
		c.request(1, "server/discover", modernParams(""))
		require.EqualValues(t, -32601, c.answer().Error.Code)
		c.request(2, "initialize", `{"protocolVersion":"2025-11-25"}`)
		require.Equal(t, version20250618, c.result().ProtocolVersion, "the newest version of the script")
		c.request(3, "initialize", `{"protocolVersion":"2024-11-05"}`)
		require.Equal(t, version20241105, c.result().ProtocolVersion)
	})
}

func TestScript_capabilities_left_out(t *testing.T) {
	withRawClient(t, Script{NoTools: true, NoResources: true, NoPrompts: true}, func(c *rawClient) {
		c.request(1, "initialize", `{"protocolVersion":"2025-11-25"}`)
		require.Contains(t, string(c.result().Result), `"capabilities":{"logging":{}}`)
		for id, method := range []string{"tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/get"} {
			c.request(id, method, "{}")
			require.EqualValues(t, -32601, c.answer().Error.Code, method)
		}
	})
}

func TestSession_rejects_unreadable_messages(t *testing.T) {
	withRawClient(t, Script{}, func(c *rawClient) {
		c.send("hello?")
		require.EqualValues(t, -32700, c.answer().Error.Code)
		c.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[]}`)
		a := c.answer()
		require.EqualValues(t, -32602, a.Error.Code)
		require.JSONEq(t, "5", string(a.ID))
		c.send("")
		c.requirePing(6)
	})
}

func TestSession_subscriptions_and_log_level(t *testing.T) {
	withSession(t, Script{}, func(c *rawClient) {
		c.call(1, "touch", `{"uri":"mcptest://text"}`)
		require.Equal(t, "announced", c.result().Text, "there is no subscription")
		c.request(2, "resources/subscribe", `{"uri":"mcptest://text"}`)
		c.result()
		c.call(3, "touch", `{"uri":"mcptest://text"}`)
		a := c.answer()
		require.Equal(t, "notifications/resources/updated", a.Method)
		require.JSONEq(t, `{"uri":"mcptest://text"}`, string(a.Params))
		c.result()

		c.request(4, "logging/setLevel", `{"level":"error"}`)
		c.result()
		c.call(5, "log", `{"level":"info","text":"filtered"}`)
		require.Equal(t, "sent", c.result().Text)
		c.call(6, "log", `{"level":"alert","text":"sent"}`)
		require.Contains(t, string(c.answer().Params), "sent")
		c.result()
		c.request(7, "logging/setLevel", `{"level":"loud"}`)
		require.EqualValues(t, -32602, c.answer().Error.Code)
	})
}

func TestSession_subscriptions_listen(t *testing.T) {
	withRawClient(t, Script{}, func(c *rawClient) {
		c.request(9, "subscriptions/listen", modernParams(`,"notifications":{"toolsListChanged":true}`))
		a := c.answer()
		require.Equal(t, "notifications/subscriptions/acknowledged", a.Method)
		require.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":9},"notifications":{"toolsListChanged":true}}`, string(a.Params))
		addition := modernParams(`,"name":"add_tool","arguments":{"name":"fresh"}`)
		c.request(10, "tools/call", addition)
		a = c.answer()
		require.Equal(t, "notifications/tools/list_changed", a.Method)
		require.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":9}}`, string(a.Params))
		c.result()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
		c.requireNoOutput()
		c.request(11, "tools/call", addition)
		require.Equal(t, "added fresh", c.result().Text, "the subscription has ended")
	})
}
