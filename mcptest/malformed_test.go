package mcptest

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestActionMalformed(t *testing.T) {
	for how, want := range map[string][]string{
		"":                 {`{"jsonrpc":"2.0","id":1,"result":"not an object"}`},
		malformedResult:    {`{"jsonrpc":"2.0","id":1,"result":"not an object"}`},
		malformedWrongID:   {`{"jsonrpc":"2.0","id":987654321,"result":{}}`},
		malformedStringID:  {`{"jsonrpc":"2.0","id":"1","result":{}}`},
		malformedDuplicate: {`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		malformedNoID:      {`{"jsonrpc":"2.0","result":{}}`},
		malformedNullID:    {`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"which request was that?"}}`},
		malformedErrorText: {`{"jsonrpc":"2.0","id":1,"error":"it did not work"}`},
		malformedEmpty:     {`{"jsonrpc":"2.0","id":1}`},
	} {
		withRawClient(t, one(Fault{At: StagePing, Nth: 1, Do: ActionMalformed, Text: how}), func(c *rawClient) {
			c.request(1, "ping", "{}")
			for _, line := range want {
				require.Equal(t, line+"\n", c.line(), how)
			}
			c.requirePing(2)
		})
	}
	require.Len(t, malformations, 9, "a malformation is missing in the table")
}

// page is one page of tools/list as the client sees it.
func page(t *testing.T, c *rawClient, id int, cursor string) (names []string, next string) {
	t.Helper()
	c.request(id, "tools/list", `{"cursor":`+strconv.Quote(cursor)+`}`)
	var result struct {
		Tools      []struct{ Name json.RawMessage }
		NextCursor string
	}
	require.NoError(t, json.Unmarshal(c.result().Result, &result))
	for _, tool := range result.Tools {
		names = append(names, string(tool.Name))
	}
	return names, result.NextCursor
}

func TestActionRepeatCursor(t *testing.T) {
	withSession(t, one(Fault{At: StageList, Do: ActionRepeatCursor}), func(c *rawClient) {
		for id := range 3 {
			names, next := page(t, c, id, "again")
			require.Len(t, names, len(DefaultTools()))
			require.Equal(t, "again", next)
		}
	})
	withSession(t, one(Fault{At: StageList, Do: ActionRepeatCursor, Text: "*"}), func(c *rawClient) {
		seen := map[string]bool{}
		for id := range 3 {
			_, next := page(t, c, id, "")
			seen[next] = true
		}
		require.Len(t, seen, 3)
	})
}

func TestActionBadTool(t *testing.T) {
	withSession(t, one(Fault{At: StageList, Method: "tools/list", Do: ActionBadTool}), func(c *rawClient) {
		names, _ := page(t, c, 1, "")
		require.Len(t, names, len(DefaultTools())+1)
		require.Contains(t, names, "12")
		require.Contains(t, names, `"echo"`)
	})
}

func TestActionRefuseVersion(t *testing.T) {
	withRawClient(t, one(Fault{At: StageInitialize, Do: ActionRefuseVersion}), func(c *rawClient) {
		c.request(1, "initialize", `{"protocolVersion":"2025-11-25"}`)
		require.Equal(t, "1999-01-01", c.result().ProtocolVersion)
	})
	withRawClient(t, one(Fault{At: StageDiscover, Do: ActionRefuseVersion, Text: "2027-01-01"}), func(c *rawClient) {
		c.request(1, "server/discover", modernParams(""))
		e := c.answer().Error
		require.EqualValues(t, -32022, e.Code)
		require.JSONEq(t, `{"supported":["2027-01-01"],"requested":"2026-07-28"}`, string(e.Data))
	})
}
