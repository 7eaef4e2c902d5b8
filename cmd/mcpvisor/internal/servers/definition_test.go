package servers

import (
	"errors"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"
)

// A keyring that does not answer delays a node once, and not for each server.
func TestQuickKeyring(t *testing.T) {
	var asked atomic.Int64
	release := make(chan struct{})
	defer close(release)
	k := quickKeyring{wait: time.Millisecond, pause: time.Hour, get: func(string, string) (string, error) {
		asked.Add(1)
		<-release
		return "", nil
	}}
	for range 3 {
		_, err := k.lookUp("mcp", "docs")
		require.ErrorContains(t, err, "has not answered lately")
	}
	require.LessOrEqual(t, asked.Load(), int64(1))
	good := quickKeyring{wait: time.Hour, pause: time.Hour, get: func(service, account string) (string, error) { return service + account, nil }}
	value, err := good.lookUp("a", "b")
	require.NoError(t, err)
	require.Equal(t, "ab", value)
}

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
