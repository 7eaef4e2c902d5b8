package facade_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	serveMetaOnStdio()
	goleak.VerifyTestMain(m)
}
