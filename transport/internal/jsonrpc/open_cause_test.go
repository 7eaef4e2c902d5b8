package jsonrpc

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The cause of a death is shared with the errors of calls, so that OpenCause, whose
// callers complete the result, must return a copy.
func TestOpenCause_returns_a_copy(t *testing.T) {
	died := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 1", Stderr: []string{"boom"}}
	for name, got := range map[string]*supervisor.Cause{
		"of_the_death": OpenCause(context.Background(), context.Canceled, died),
		"in_the_error": OpenCause(context.Background(), fmt.Errorf("initialize: %w", died), nil),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, died, got)
			got.Message, got.Stderr[0] = "changed", "changed"
			require.Equal(t, "exit status 1", died.Message)
			require.Equal(t, []string{"boom"}, died.Stderr)
		})
	}
}
