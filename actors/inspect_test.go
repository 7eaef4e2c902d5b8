package actors

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// What a lifecycle keeps of a cause is bounded, whatever a server wrote.
func TestShortCause(t *testing.T) {
	long := strings.Repeat("x", retention.StepBytes)
	cause := &supervisor.Cause{Kind: supervisor.CauseExit, Err: errors.New("why " + long), Stderr: []string{long, "last but one", "last"}}
	short := shortCause(cause)
	require.Equal(t, []string{"last but one", "last"}, short.Stderr)
	require.Regexp(t, `^why x+ … \(cut\)$`, short.Message)
	require.LessOrEqual(t, len(short.Message), retention.StepBytes)
	require.NoError(t, short.Err)
	require.Len(t, cause.Stderr, 3, "the cause itself is as it was")
	require.Nil(t, shortCause(nil))
}
