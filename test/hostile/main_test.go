package hostile

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// Bounds of polling, where no channel signals the change.
const (
	eventually = 30 * time.Second
	tick       = 5 * time.Millisecond
)
