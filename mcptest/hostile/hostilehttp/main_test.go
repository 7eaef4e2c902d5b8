package hostilehttp

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually bounds what must come.
const eventually = 30 * time.Second
