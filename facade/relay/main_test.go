package relay_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}
