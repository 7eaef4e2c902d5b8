package jsonrpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// The word that a stream stands says which one; what is no number names none.
func TestAcknowledgementsNameTheirStream(t *testing.T) {
	for meta, want := range map[string]int64{
		`"_meta":{"io.modelcontextprotocol/subscriptionId":1099511627777},`:   1099511627777,
		`"_meta":{"io.modelcontextprotocol/subscriptionId":"1099511627777"},`: 0,
		`"_meta":{},`: 0,
		`"_meta":[],`: 0,
		``:            0,
	} {
		var told []transport.Notice
		n := new(Notifications)
		n.OnNotice(func(one transport.Notice) { told = append(told, one) })
		params := `{` + meta + `"notifications":{"resourceSubscriptions":["x:a"]}}`
		require.Equal(t, Handled, n.Handle([]byte(`"notifications/subscriptions/acknowledged"`), []byte(params)))
		require.Equal(t, []transport.Notice{{Kind: transport.Acknowledged, Honored: []string{"x:a"}, Stream: want}}, told, strings.TrimSpace(meta))
	}
}
