package tokenstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/mcpvisor/mcpvisor/internal/hostcall"
)

// keyringService is the service name of all entries in the keyring.
const keyringService = "mcpvisor"

// keyringTimeout bounds one access to the keyring. A locked keyring asks the user
// for a password, and a call must not wait for the user.
const keyringTimeout = 3 * time.Second

// Keyring is a store in the keyring of the operating system: the
// Keychain, the Credential Manager, or a Secret Service on D-Bus. Any two
// are equal (==).
type Keyring[K comparable] struct{ service string }

// keyringMutex is a mutex as a channel: an access holds it until the keyring
// answers, also after its caller gave up. So a late write never overwrites a
// newer one.
var keyringMutex = make(chan struct{}, 1)

// NewKeyring returns the store in the keyring of the user who runs this process.
func NewKeyring[K comparable]() Keyring[K] { return Keyring[K]{service: keyringService} }

// account returns the name of an entry. It is readable, so that the user can find
// and delete the entry of a server.
func (Keyring[K]) account(key K) string {
	text, _ := json.Marshal(key) // strings always marshal
	return string(text)
}

// Load implements oauth.TokenStore.
func (s Keyring[K]) Load(ctx context.Context, key K) ([]byte, error) {
	text, err := s.access(ctx, func() (string, error) { return keyring.Get(s.service, s.account(key)) })
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading tokens from the keyring: %w; unlock it, or keep tokens in files", err)
	}
	return []byte(text), nil
}

// Save implements oauth.TokenStore.
func (s Keyring[K]) Save(ctx context.Context, key K, data []byte) error {
	_, err := s.access(ctx, func() (string, error) { return "", keyring.Set(s.service, s.account(key), string(data)) })
	switch {
	case errors.Is(err, keyring.ErrSetDataTooBig):
		return fmt.Errorf("storing tokens in the keyring: %w; keep the tokens of this server in files", err)
	case err != nil:
		return fmt.Errorf("storing tokens in the keyring: %w; unlock it, or keep tokens in files", err)
	}
	return nil
}

// Delete implements oauth.TokenStore.
func (s Keyring[K]) Delete(ctx context.Context, key K) error {
	_, err := s.access(ctx, func() (string, error) { return "", keyring.Delete(s.service, s.account(key)) })
	if err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return fmt.Errorf("deleting tokens from the keyring: %w; unlock it", err)
	}
	return nil
}

// access runs one operation of the keyring, which takes no context, and waits for
// it at most for keyringTimeout. An operation that was given up continues in its
// goroutine until the keyring answers.
func (s Keyring[K]) access(ctx context.Context, operation func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringTimeout)
	defer cancel()
	text, err := hostcall.Wait(ctx, "keyring", nil, func(ctx context.Context) (string, error) {
		select {
		case keyringMutex <- struct{}{}:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		defer func() { <-keyringMutex }()
		return operation()
	})
	return text, err //nolint:wrapcheck // the callers say what failed
}
