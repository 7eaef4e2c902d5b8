package fleet

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMain(m *testing.M) {
	guard.Main(func(context.Context, []byte) error { return nil }) // the stores of these tests are in their process
	mcptest.Main()
	goleak.VerifyTestMain(m)
}
