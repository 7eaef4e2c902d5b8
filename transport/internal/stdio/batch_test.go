package stdio

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// TestBatch checks that every message of a batch is handled, whatever else the batch
// holds. A batch within a batch is malformed.
func TestBatch(t *testing.T) {
	p := newPeer(t, osPipe, 8<<20)
	one, two := p.startRequest(t.Context(), transport.Request{Method: "m"}), p.startRequest(t.Context(), transport.Request{Method: "m"})
	a, b := p.readMessage().ID, p.readMessage().ID
	long := `"` + strings.Repeat("x", 3*jsonrpc.LargeMessage) + `"`
	p.writeLine(` [ 7 , {"id":%d,"result":%s},null, [{"id":%d,"result":"nested"}],"text", {"a":1} ,{"jsonrpc":"2.0","id":"in the batch","method":"ping"},{"id":%d,"result":%s} ] `,
		a, long, b, b, long)
	require.ElementsMatch(t, []outcome{{result: long}, {result: long}}, []outcome{<-one, <-two})
	require.Equal(t, `"in the batch"`, string(p.readRefusal().ID))
	require.Equal(t, mcpvisor.Discarded{Malformed: 5}, p.discarded.Counts())
}

// TestBatch_malformed checks that no message of an incomplete batch is handled.
func TestBatch_malformed(t *testing.T) {
	for _, message := range []string{`[{"jsonrpc":"2.0","method":"m"}`, `[{"jsonrpc":"2.0","method":"m"}{}]`, `[{"jsonrpc":"2.0","method":"m"},]`, `[]x`} {
		c := newConn(jsonrpc.NewLifetime(), strings.NewReader(""), io.Discard, lineLimit(1<<20))
		c.ReceiveLine([]byte(message))
		require.Equal(t, mcpvisor.Discarded{Malformed: 1}, c.discarded.Counts(), message)
	}
}

// TestBatch_allocations checks that a long batch of small values is not decoded into
// memory, where it would take ten times its length.
func TestBatch_allocations(t *testing.T) {
	const items = 1 << 16
	batch := []byte("[" + strings.Repeat("1,", items-1) + "1]")
	nested := []byte("[" + strings.Repeat("[1],", items-1) + "[1]]")
	c := newConn(jsonrpc.NewLifetime(), strings.NewReader(""), io.Discard, lineLimit(1<<20))
	require.LessOrEqual(t, testing.AllocsPerRun(1, func() { c.ReceiveLine(batch); c.ReceiveLine(nested) }), 10.0)
	require.EqualValues(t, 2*2*items, c.discarded.Counts().Malformed)
}
