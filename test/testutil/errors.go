package testutil

import (
	"errors"
	"testing"
)

// AsError returns the error of a type in the chain of err, and ends the test without one.
func AsError[E error](t testing.TB, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("there is no %T in the chain of %v", e, err)
	}
	return e
}
