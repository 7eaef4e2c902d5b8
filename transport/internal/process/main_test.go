package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

const (
	// waitLimit is how long a test waits for what must happen, checkInterval how often
	// it looks.
	waitLimit     = time.Minute
	checkInterval = 5 * time.Millisecond
)

// requireClosed waits until c is closed. failure says what it means if it is not.
func requireClosed(t *testing.T, c <-chan struct{}, failure string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(waitLimit):
		require.Fail(t, failure)
	}
}
