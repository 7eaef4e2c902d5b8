package facts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

func TestUnknownCalls(t *testing.T) {
	var u UnknownCalls
	require.Empty(t, u.Records())
	for _, seq := range []uint64{1, 3, 2} { // callers that end at the same time overtake each other
		u.Add(&mcpvisor.CallRecord{Seq: seq})
	}
	require.Equal(t, []mcpvisor.CallRecord{{Seq: 1}, {Seq: 2}, {Seq: 3}}, u.Records())
	for i := range retention.UnknownCalls {
		u.Add(&mcpvisor.CallRecord{Seq: uint64(i + 4)})
	}
	records := u.Records()
	require.Len(t, records, retention.UnknownCalls)
	require.EqualValues(t, 4, records[0].Seq)
}
