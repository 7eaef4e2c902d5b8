package jsonrpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadProgressLongText: control characters and secrets are removed.
func TestReadProgressLongText(t *testing.T) {
	t.Run("long", func(t *testing.T) {
		_, report, ok := ReadProgress([]byte(`{"progressToken":1,"progress":1,"message":"`+strings.Repeat(`é`, MaxProgressMessage)+`"}`), new(Notifications))
		require.True(t, ok)
		require.LessOrEqual(t, len(report.Message), MaxProgressMessage)
		require.True(t, strings.HasSuffix(report.Message, "(cut)"))
	})
}
