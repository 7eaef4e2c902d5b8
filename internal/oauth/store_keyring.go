package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// keyringService is the name under which entries stand in the keyring.
const keyringService = "mcpvisor"

// keyringWait bounds one visit to the keyring. A locked one asks a person for
// its password, and a person is never awaited in a call.
const keyringWait = 3 * time.Second

// keyringStore keeps authorizations in the keyring of the operating system: the
// Keychain, the Credential Manager, or a Secret Service on D-Bus.
type keyringStore struct{ service string }

// keyringTurn is held during a visit, also by one that was given up: what that
// writes late must not overwrite what comes after it.
var keyringTurn = make(chan struct{}, 1)

// NewKeyringStore returns a store in the keyring of the user who runs this
// process. It is opened at its first use.
func NewKeyringStore() mcpvisor.TokenStore { return &keyringStore{service: keyringService} }

// account names an entry. Unlike the name of a file it may be read: that is what
// a person looks for who wants to delete it.
func (*keyringStore) account(key mcpvisor.TokenKey) string {
	text, _ := json.Marshal(key) // strings always marshal
	return string(text)
}

// Load implements mcpvisor.TokenStore.
func (s *keyringStore) Load(ctx context.Context, key mcpvisor.TokenKey) (*mcpvisor.Authorization, error) {
	text, err := s.visit(ctx, func() (string, error) { return keyring.Get(s.service, s.account(key)) })
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return nil, nil //nolint:nilnil // as the interface wants it
	case err != nil:
		return nil, fmt.Errorf("reading tokens from the keyring: %w; unlock it, or keep tokens in files", err)
	}
	var a *mcpvisor.Authorization
	if err := json.Unmarshal([]byte(text), &a); err != nil || a == nil {
		return nil, fmt.Errorf("reading the keyring's entry of this server: %w; delete it and authorize anew", errSpoiled)
	}
	return a, nil
}

// Save implements mcpvisor.TokenStore.
func (s *keyringStore) Save(ctx context.Context, key mcpvisor.TokenKey, a *mcpvisor.Authorization) error {
	text, err := json.Marshal(a)
	if err == nil {
		_, err = s.visit(ctx, func() (string, error) { return "", keyring.Set(s.service, s.account(key), string(text)) })
	}
	switch {
	case errors.Is(err, keyring.ErrSetDataTooBig):
		return fmt.Errorf("storing tokens in the keyring: %w; keep the tokens of this server in files", err)
	case err != nil:
		return fmt.Errorf("storing tokens in the keyring: %w; unlock it, or keep tokens in files", err)
	}
	return nil
}

// Delete implements mcpvisor.TokenStore.
func (s *keyringStore) Delete(ctx context.Context, key mcpvisor.TokenKey) error {
	_, err := s.visit(ctx, func() (string, error) { return "", keyring.Delete(s.service, s.account(key)) })
	if err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return fmt.Errorf("deleting tokens from the keyring: %w; unlock it", err)
	}
	return nil
}

// visit bounds what knows no context. A visit that is given up goes on behind it
// until the keyring answers.
func (s *keyringStore) visit(ctx context.Context, do func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyringWait)
	defer cancel()
	type found struct {
		text string
		err  error
	}
	done := make(chan found, 1)
	go func() {
		select {
		case keyringTurn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-keyringTurn }()
		text, err := guard.Value("keyring", do)
		done <- found{text, err}
	}()
	select {
	case f := <-done:
		return f.text, f.err
	case <-ctx.Done():
		return "", fmt.Errorf("it does not answer: %w", ctx.Err())
	}
}
