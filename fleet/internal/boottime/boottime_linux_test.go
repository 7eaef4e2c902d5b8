package boottime_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/boottime"
)

// TestNow: /proc/uptime counts suspend, too, in hundredths of a second.
func TestNow(t *testing.T) {
	before := uptime(t)
	now := boottime.Now()
	require.GreaterOrEqual(t, now, before)
	require.LessOrEqual(t, now, uptime(t)+10*time.Millisecond)
}

func uptime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	require.NoError(t, err)
	seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	require.NoError(t, err)
	return time.Duration(seconds * float64(time.Second)).Round(10 * time.Millisecond) // a product of floats may be a little less
}
