package stdio

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A limit that is none does no harm.
func TestLineReaderWithoutLimit(t *testing.T) {
	large := strings.Repeat("x", 3*jsonrpc.LargeMessage)
	for _, limit := range transporttest.HugeLimits {
		l := newLineReader(strings.NewReader("short\n"+large+"\nrest"), limit)
		for _, want := range []string{"short", large, "rest"} {
			line, _, over, err := l.next()
			require.Equal(t, want, string(line))
			require.False(t, over)
			require.True(t, err == nil || errors.Is(err, io.EOF), err)
			require.Equal(t, want, string(l.claim(line)))
		}
	}
}
