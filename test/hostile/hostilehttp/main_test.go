package hostilehttp

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually bounds every wait.
const eventually = 30 * time.Second
