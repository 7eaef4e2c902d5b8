package servers

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/zalando/go-keyring"
)

// keyringTimeout bounds one look-up. A locked keyring asks the user for a password meanwhile.
const keyringTimeout = time.Minute

// lookUpSecret returns one entry of the keyring of the operating system, for
// ${keyring:service/account} of configuration files: the Keychain of macOS, the Credential
// Manager of Windows, or a Secret Service on D-Bus. Its errors say what to do, and hold no value.
// A look-up that was given up continues until the keyring answers.
func lookUpSecret(service, account string) (string, error) {
	return lookUpIn(service, account, keyring.Get, time.After(keyringTimeout))
}

func lookUpIn(service, account string, get func(service, account string) (string, error), expired <-chan time.Time) (string, error) {
	type result struct {
		value string
		err   error
	}
	done := make(chan result, 1) // has room, so the goroutine ends without a receiver
	go func() {
		value, err := get(service, account)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		switch {
		case errors.Is(r.err, keyring.ErrNotFound):
			return "", errors.New("the keyring has no such entry; store it there, or correct the name")
		case errors.Is(r.err, exec.ErrNotFound):
			return "", fmt.Errorf("there is no keyring on this machine; use ${VAR} or ${file:…}: %w", r.err)
		case r.err != nil:
			return "", fmt.Errorf("the keyring cannot be used; unlock it, or use ${VAR} or ${file:…}: %w", r.err)
		}
		return r.value, nil
	case <-expired:
		return "", fmt.Errorf("the keyring has not answered for %v; unlock it, or use ${VAR} or ${file:…}", keyringTimeout)
	}
}
