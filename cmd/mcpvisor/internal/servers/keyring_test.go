package servers

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"
)

func TestLookUpSecret(t *testing.T) {
	keyring.MockInit()
	require.NoError(t, keyring.Set("service", "me/work", "value"))
	value, err := lookUpSecret("service", "me/work")
	require.NoError(t, err)
	require.Equal(t, "value", value)
	_, err = lookUpSecret("service", "you")
	require.EqualError(t, err, "the keyring has no such entry; store it there, or correct the name")
	keyring.MockInitWithError(errors.New("locked"))
	_, err = lookUpSecret("service", "me/work")
	require.EqualError(t, err, "the keyring cannot be used; unlock it, or use ${VAR} or ${file:…}: locked")
	keyring.MockInitWithError(&exec.Error{Name: "dbus-launch", Err: exec.ErrNotFound})
	_, err = lookUpSecret("service", "me/work")
	require.ErrorContains(t, err, "there is no keyring on this machine; use ${VAR} or ${file:…}")
}

// A keyring that waits for the user is given up.
func TestLookUpSecret_without_an_answer(t *testing.T) {
	answer, expired := make(chan struct{}), make(chan time.Time)
	close(expired)
	_, err := lookUpIn("s", "a", func(string, string) (string, error) { <-answer; return "", nil }, expired)
	require.ErrorContains(t, err, "has not answered for 1m0s")
	close(answer)
}
