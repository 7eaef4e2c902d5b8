package testutil

import (
	"testing"
	"testing/synctest"
)

// RunInBubble runs a subtest in virtual time: in a bubble of its own (synctest.Test).
func RunInBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
