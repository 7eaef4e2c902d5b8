package stdio

import (
	"testing"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"
)

// TestNotificationsPassWithParameters: what the protocol allows reaches the
// go-sdk.
func TestNotificationsPassWithParameters(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	for _, said := range []string{
		`"notifications/elicitation/complete","params":{"elicitationId":"e"}`,
		`"notifications/of/others"`, `"notifications/of/others","params":null`, `"notifications/of/our/own"`,
	} {
		p.say(`{"jsonrpc":"2.0","method":%s}`, said)
		m, err := p.control.Read(t.Context())
		require.NoError(t, err)
		require.False(t, m.(*sdkrpc.Request).IsCall())
	}
	p.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params": {} }`)
	p.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"of nothing"}}`)
	p.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	require.EqualValues(t, 1, p.read().ID)
	require.Zero(t, p.noise.Counts())
}
