package inbound

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport"
)

// A server that asks for roots, which are declared for calls, while no caller is known gets an empty list. Without the
// declaration, and from a caller that has none, it is refused.
func TestHasNoRoots(t *testing.T) {
	declared := transport.Offer{Roots: true}
	withoutCaller := answerer{declared: declared}
	require.True(t, withoutCaller.hasNoRoots(methodRoots))
	require.NoError(t, withoutCaller.checkMethod(methodRoots))
	require.Error(t, withoutCaller.checkMethod(methodSample))
	require.ErrorContains(t, answerer{}.checkMethod(methodRoots), "this client does not offer roots")
	require.ErrorContains(t, answerer{declared: declared, handlers: new(transport.CallHandlers)}.checkMethod(methodRoots), "no client was asked")
	require.False(t, answerer{declared: declared, offer: declared}.hasNoRoots(methodRoots))
}
