package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// silentServer lists the resource mem://silent, and never answers who subscribes to it.
func silentServer() *mcpvisor.InMemory {
	answers := map[string]string{
		"initialize":               `"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"silent","version":"1"}}`,
		"resources/list":           `"result":{"resources":[{"uri":"mem://silent","name":"silent"},{"uri":"mem://mute","name":"mute"}]}`,
		"resources/templates/list": `"result":{"resourceTemplates":[]}`,
		"server/discover":          `"error":{"code":-32601,"message":"no"}`,
		"resources/unsubscribe":    `"result":{}`,
		"ping":                     `"result":{}`,
	}
	return &mcpvisor.InMemory{Serve: func(_ context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil || answers[m.Method] == "" {
				continue
			}
			if _, err := fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answers[m.Method]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// A server that does not answer does not keep a session from the changes of the others.
func TestListen_with_a_silent_server(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what is asked of a server ends after 2 s of its clock
		c := newClient(t, fixture("a", mcptest.Script{}), mcpvisor.ServerSpec{Name: "silent", InMemory: silentServer()})
		transport := Transport(c)
		transport.(*gateway).subscriptions.Bound = 2 * time.Second
		s := openRaw(t, transport)
		uri := c.Resources()[0].URI
		s.send(7, "subscriptions/listen", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},
			"notifications":{"toolsListChanged":true,"resourceSubscriptions":["mem://silent","mem://mute","`+uri+`"]}}`)
		ack := s.read().(*jsonrpc.Request)
		require.JSONEq(t, `{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["`+uri+`"]}}`, string(ack.Params))
		_, err := c.CallTool(t.Context(), "a/add_tool", map[string]any{"name": "fresh"})
		require.NoError(t, err)
		require.Equal(t, "notifications/tools/list_changed", s.read().(*jsonrpc.Request).Method)
	})
}
