package jsonrpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// TestDeathHasManyFaces: the kind of the error follows the cause.
func TestDeathHasManyFaces(t *testing.T) {
	for cause, kind := range map[supervisor.CauseKind]mcpvisor.ErrorKind{
		supervisor.CauseExit: mcpvisor.KindCrashed, supervisor.CauseSignal: mcpvisor.KindCrashed, supervisor.CauseProbe: mcpvisor.KindCrashed,
		supervisor.CauseRequested: mcpvisor.KindClosed, supervisor.CauseAuth: mcpvisor.KindAuthRequired,
	} {
		e := DeathError(&supervisor.Cause{Kind: cause}, mcpvisor.OutcomeNotSent)
		require.Equal(t, kind, e.Kind, cause)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	}
}
