package peer

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// A call that an operator has canceled on the node of its server says so on the node of its caller.
func TestFailure_by_an_operator(t *testing.T) {
	e := decodeFailure(encodeFailure(&mcpvisor.Error{Server: "s", Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeUnknown, Cause: transport.ErrByOperator}))
	require.ErrorIs(t, e, transport.ErrByOperator)
	require.ErrorIs(t, e, context.Canceled)
	require.ErrorIs(t, e, mcpvisor.ErrCanceled)
	require.Equal(t, transport.ErrByOperator.Error(), e.Cause.Error())
}
