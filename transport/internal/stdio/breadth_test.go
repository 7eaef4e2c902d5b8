package stdio

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A server hears why its question was refused, and may go on.
func TestPipedBroadQuestion(t *testing.T) {
	p := newPartner(t, false)
	p.Open(transport.Handlers{ElicitForm: transporttest.AcceptAtOnce})
	p.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":%s}}`, transporttest.BroadObject(30_000))
	m := p.Next("")
	require.Equal(t, `"q"`, string(m.ID))
	require.Contains(t, string(m.Error), "the parameters hold more than 50000 values")
	p.Send(`{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
	require.NotEmpty(t, p.Next("").Result)
}
