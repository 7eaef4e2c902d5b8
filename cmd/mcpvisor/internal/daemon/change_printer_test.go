package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Who runs mcpvisor learns what to do about a server that waits for the user, if that can be done here.
func TestTextOf_authorization(t *testing.T) {
	e := mcpvisor.Event{Kind: mcpvisor.EventAuthRequired, Server: "crm", Cause: &supervisor.Cause{Kind: supervisor.CauseAuth, Permanent: true, Message: "401"}}
	require.Equal(t, "waits to be authorized: 401", textOf(&e))
	e.Cause.Err = &mcpvisor.AuthRequired{Resource: "https://crm.example"}
	require.Equal(t, "waits to be authorized: 401; run: mcpvisor authorize crm", textOf(&e))
}
