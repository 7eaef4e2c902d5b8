package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
)

func TestDiagnose_stray_output(t *testing.T) {
	d := diagnose(&servers.Opener{Invocation: cli.Invocation{Context: t.Context()}}, mcpvisor.ServerStatus{Name: "s", Transport: "stdio", Session: &mcpvisor.SessionInfo{
		StrayOutput: mcpvisor.StrayOutput{Text: "Ok to proceed? (y)", Reason: "it asks a question"}}}, mcpvisor.ServerSpec{}, 0)
	require.Contains(t, d.Warnings, `its stdout says "Ok to proceed? (y)": it asks a question`)
}
