package daemon

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Records that cannot be written are one line of the output, and need attention until they can.
func TestKeptRecords_that_cannot_be_written(t *testing.T) {
	var errs bytes.Buffer
	k := &keptRecords{inv: &servers.Opener{Invocation: cli.Invocation{Err: &errs}}}
	require.Empty(t, k.attention())
	k.report("write the records: no space left on device")
	require.Equal(t, "calls and events are not recorded: write the records: no space left on device\n", errs.String())
	all := k.attention()
	require.Len(t, all, 1)
	require.Equal(t, api.AttentionRecords, all[0].Kind)
	require.Equal(t, api.SeverityError, all[0].Severity)
	require.Contains(t, all[0].Action, "make room on the disk")
	errs.Reset()
	k.report("")
	require.Equal(t, "records of calls and events are written again\n", errs.String())
	require.Empty(t, k.attention())
}
