package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/oauth/internal/jwt"
	"github.com/mcpvisor/mcpvisor/oauth/internal/metadata"
	"github.com/mcpvisor/mcpvisor/oauth/internal/safehttp"
	"github.com/mcpvisor/mcpvisor/oauth/internal/tokenstore"
)

// TokenStore keeps authorizations beyond the end of the process. It must be safe for
// concurrent use. A store that several processes share should also implement
// [TokenLocker]. A method that ignores its context or panics blocks no caller: it runs
// in a goroutine of its own.
type TokenStore interface {
	// Load returns what Save has stored, or nil and no error if nothing is stored.
	Load(ctx context.Context, key TokenKey) (data []byte, err error)
	// Save stores an authorization, which is JSON and holds secrets. When it returns nil, the
	// authorization must survive the end of the process.
	Save(ctx context.Context, key TokenKey, data []byte) error
	// Delete removes an authorization. A missing one is no error.
	Delete(ctx context.Context, key TokenKey) error
}

// TokenLocker is an optional interface of a [TokenStore]. Its lock keeps processes from
// refreshing one token at the same time: many authorization servers revoke all tokens
// when a refresh token is used twice (OAuth 2.1, section 4.3.1).
type TokenLocker interface {
	// Lock waits until it holds the lock of a key, or until ctx ends. The lock should end
	// with its process.
	Lock(ctx context.Context, key TokenKey) (unlock func(), err error)
}

// TokenKey identifies one authorization in a [TokenStore]. It holds no secret.
type TokenKey struct {
	// Server is the URL of the MCP endpoint, without user and fragment. A query is
	// replaced by a digest.
	Server string `json:"server"`
	// Client is Config.ClientID or Config.ClientMetadataURL; empty for a client that
	// registers itself.
	Client string `json:"client,omitempty"`
	// Account is Config.Account.
	Account string `json:"account,omitempty"`
}

// authorization is what a [TokenStore] holds as JSON: the registration of a client at one
// authorization server, and its tokens. It holds secrets. The names in JSON are stable, so that
// later versions can read it.
type authorization struct {
	// Issuer is the authorization server that all other fields belong to.
	Issuer string `json:"issuer"`
	// Resource is the resource identifier that the tokens are for (RFC 8707).
	Resource string `json:"resource"`

	// ClientID is the client_id of Config, or of the dynamic registration.
	ClientID string `json:"client_id"`
	// ClientSecret is that of a dynamic registration; empty: none.
	ClientSecret string `json:"client_secret,omitempty"`
	// ClientSecretExpires is when ClientSecret expires; zero: never.
	ClientSecretExpires time.Time `json:"client_secret_expires,omitzero"`
	// AuthMethod is the method of client authentication at the token endpoint, for
	// example "client_secret_basic".
	AuthMethod string `json:"auth_method,omitempty"`
	// TokenEndpoint is the URL at which the tokens are refreshed.
	TokenEndpoint string `json:"token_endpoint,omitempty"`
	// RedirectURL is the redirect URI of a dynamic registration; empty for any other
	// client.
	RedirectURL string `json:"redirect_url,omitempty"`

	// AccessToken is sent to the server; empty: none.
	AccessToken string `json:"access_token,omitempty"`
	// RefreshToken gets another access token; empty: none.
	RefreshToken string `json:"refresh_token,omitempty"`
	// Expires is when the access token expires; zero: unknown.
	Expires time.Time `json:"expires,omitzero"`
	// Obtained is when the access token was issued.
	Obtained time.Time `json:"obtained,omitzero"`
	// DPoPKey is the private key that the tokens are bound to (RFC 9449), as d of a JSON Web Key
	// of the curve P-256; empty: they are bearer tokens. Tokens without their key are useless:
	// servers refuse them, and the user must authorize again.
	DPoPKey string `json:"dpop_key,omitempty"`
	// Scopes are the granted scopes. If the authorization server did not say, they are
	// the requested ones (RFC 6749, section 5.1).
	Scopes []string `json:"scopes,omitempty"`
	// RequestedScopes are the scopes that were requested.
	RequestedScopes []string `json:"requested_scopes,omitempty"`
	// StepUpScopes are the scopes to request at the next authorization, because the
	// server refused a request without them (step-up authorization).
	StepUpScopes []string `json:"step_up_scopes,omitempty"`
}

// clone returns a copy that shares no memory with a.
func (a *authorization) clone() *authorization {
	if a == nil {
		return nil
	}
	c := *a
	c.Scopes, c.RequestedScopes, c.StepUpScopes = slices.Clone(a.Scopes), slices.Clone(a.RequestedScopes), slices.Clone(a.StepUpScopes)
	return &c
}

// memoryStore keeps authorizations until the process ends.
type memoryStore struct {
	mu      sync.Mutex
	entries map[TokenKey][]byte        // guarded by mu
	locks   map[TokenKey]chan struct{} // guarded by mu; each is a mutex as a channel
}

// NewMemoryStore returns a store that is lost at the end of the process.
func NewMemoryStore() TokenStore {
	return &memoryStore{entries: map[TokenKey][]byte{}, locks: map[TokenKey]chan struct{}{}}
}

// Load implements TokenStore.
func (s *memoryStore) Load(_ context.Context, key TokenKey) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries[key]), nil
}

// Save implements TokenStore.
func (s *memoryStore) Save(_ context.Context, key TokenKey, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = slices.Clone(data)
	return nil
}

// Delete implements TokenStore.
func (s *memoryStore) Delete(_ context.Context, key TokenKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
	return nil
}

// Lock implements TokenLocker, for registrations that share one store.
func (s *memoryStore) Lock(ctx context.Context, key TokenKey) (unlock func(), err error) {
	s.mu.Lock()
	lock := s.locks[key]
	if lock == nil {
		lock = make(chan struct{}, 1)
		s.locks[key] = lock
	}
	s.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// NewFileStore returns a store of files in the directory dir, which only their owner can read. The
// directory should hold nothing else. Several processes may share it, and what Save has stored
// survives a crash. An empty dir means mcpvisor/tokens below the user's configuration directory
// (os.UserConfigDir), which is also the default of Config.Store.
//
// The only error of NewFileStore is that dir is empty and the host has no configuration directory.
// The directory is created when it is first written. The methods of the store return an error if it
// cannot be used, or if a file in it belongs to another user.
func NewFileStore(dir string) (TokenStore, error) {
	s, err := tokenstore.NewFile[TokenKey](dir)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// NewKeyringStore returns a store in the keyring of the user who runs this process: the Keychain,
// the Credential Manager, or a Secret Service on D-Bus. It is opened at the first use. A locked
// keyring asks the user for a password. An operation of the store fails if there is no keyring, or
// if the keyring does not answer within 3 s. Calls then fail with ErrAuthRequired if the store has
// never worked, and with ErrUnavailable if it worked before; the log says why. Tokens that cannot
// be stored are used until the process ends. Windows stores tokens of up to 2.5 KB; Save fails for
// longer ones. Unlike [NewFileStore] it has no lock between processes.
func NewKeyringStore() TokenStore { return tokenstore.NewKeyring[TokenKey]() }

// reload makes the stored authorization the current one if another process or
// registration wrote it. If a store that worked before cannot be read, the error is
// temporary and nothing is renewed: the tokens in memory may be outdated, and an
// authorization server revokes all tokens when a refresh token is used twice. A store
// that never worked only causes a warning.
func (a *authorizer) reload(ctx context.Context) error {
	if a.store == nil {
		return nil
	}
	ctx, cancel := overdue.WithTimeout(ctx, a.tokenWait())
	defer cancel()
	data, err := hostcall.Wait(ctx, "Store", nil, func(ctx context.Context) ([]byte, error) { return a.store.Load(ctx, a.key) })
	var stored *authorization
	if err == nil && data != nil {
		if json.Unmarshal(data, &stored) != nil {
			stored, err = nil, fmt.Errorf("reading the tokens of %s: %w; authorize again", a.key.Server, tokenstore.ErrUnreadable)
		}
	}
	if stored != nil {
		a.redactor.add(stored.AccessToken, stored.RefreshToken, stored.ClientSecret, stored.DPoPKey)
	}
	warning, err := a.adopt(stored, err)
	if warning != "" {
		a.warn(warning)
	}
	return err
}

// adopt makes what the store returned the current authorization, if it is new. It returns
// a warning for the log, because no lock may be held while that is written.
func (a *authorizer) adopt(stored *authorization, err error) (warning string, _ error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	// The store worked before, so it may hold newer tokens than the memory.
	case err != nil && a.stored != nil && !errors.Is(err, tokenstore.ErrUnreadable):
		return "", &safehttp.Temporary{Err: err}
	case err != nil:
		return a.Redact(err.Error()), nil
	// Nothing new. Tokens in memory that could not be stored stay the current ones.
	case stored == nil || sameTokens(stored, a.stored):
	// The entry may have been copied. Tokens are audience-bound (RFC 8707).
	case stored.Resource != "" && !metadata.IsResourceOf(stored.Resource, a.http.Server()):
		return "the stored tokens are for " + stored.Resource + ", which is not this server; they are not used", nil
	default:
		a.stored = stored
		if _, err := jwt.ParseDPoPKey(stored.DPoPKey); stored.DPoPKey != "" && err != nil {
			stored, warning = stored.clone(), err.Error()+", so that the user has to authorize again"
			stored.AccessToken, stored.RefreshToken, stored.DPoPKey = "", "", ""
		}
		if !sameTokens(stored, a.tokens) {
			a.setTokens(stored, fromStore)
		}
	}
	return warning, nil
}

// sameTokens reports whether two authorizations hold the same tokens of the same
// client and issuer.
func sameTokens(a, b *authorization) bool {
	return a != nil && b != nil && a.Issuer == b.Issuer && a.ClientID == b.ClientID &&
		a.AccessToken == b.AccessToken && a.RefreshToken == b.RefreshToken
}

// save stores an authorization and then makes it the current one. It does both also
// after ctx has ended, because the tokens cannot be obtained a second time. If the
// store fails, the authorization becomes the current one anyway. After Forget
// save does nothing and returns errForgotten.
func (a *authorizer) save(ctx context.Context, next *authorization, source tokenSource) error {
	a.redactor.add(next.AccessToken, next.RefreshToken, next.ClientSecret, next.DPoPKey)
	var err error
	if a.store != nil && !isForgotten(ctx) {
		saving, cancel := overdue.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		var data []byte
		if data, err = json.Marshal(next); err == nil {
			err = hostcall.Do(saving, "Store", func(ctx context.Context) error { return a.store.Save(ctx, a.key, data) })
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// Forget may have run during the write. Renewals and code exchanges hold the token
	// lock, so Forget deletes the entry after them.
	if isForgotten(ctx) {
		return errForgotten
	}
	if err == nil {
		a.stored = next
	}
	a.setTokens(next, source)
	return a.redactor.redactError(err)
}

// isForgotten reports whether Forget ended ctx.
func isForgotten(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errForgotten) }

// lockTokens waits until no other goroutine and no other process replaces the tokens.
// If it cannot get a lock in time it continues without one: two renewals of one token
// are better than none. The caller must not hold a.mu.
func (a *authorizer) lockTokens(ctx context.Context) (unlock func()) {
	ctx, cancel := overdue.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	// First the other goroutines of this registration, then the other processes.
	unlockLocal := func() {}
	select {
	case a.tokenLock <- struct{}{}:
		unlockLocal = func() { <-a.tokenLock }
	case <-ctx.Done():
	}
	locker, ok := a.store.(TokenLocker)
	if !ok {
		return unlockLocal
	}
	// A lock that arrives after ctx has ended is released at once.
	unlockStore, err := hostcall.Wait(ctx, "Store", func(late func()) { late() }, func(ctx context.Context) (func(), error) {
		return locker.Lock(ctx, a.key)
	})
	if err != nil {
		if ctx.Err() == nil {
			a.warn(a.Redact(err.Error()))
		}
		return unlockLocal
	}
	return func() {
		defer unlockLocal()
		unlocking, cancel := overdue.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		if err := hostcall.Do(unlocking, "Store", func(context.Context) error { unlockStore(); return nil }); err != nil {
			a.warn(a.Redact(err.Error()))
		}
	}
}

// storeKey returns the key under which the authorization of a server is stored.
func storeKey(o *Config, server *url.URL, socket string) TokenKey {
	u := *server
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	if server.RawQuery != "" { // it may hold secrets, and stores show their keys
		sum := sha256.Sum256([]byte(server.RawQuery))
		u.RawQuery = hex.EncodeToString(sum[:8])
	}
	if socket != "" { // the host says nothing
		u.Scheme, u.Host = u.Scheme+"+unix", url.PathEscape(socket)
	}
	key := TokenKey{Server: u.String(), Client: o.ClientID, Account: o.Account}
	if key.Client == "" {
		key.Client = o.ClientMetadataURL
	}
	return key
}

// unattended reports whether tokens are requested without the user. They are not stored then,
// because another one can always be requested.
func unattended(o *Config) bool {
	return o.Grant == GrantClientCredentials || o.Grant == GrantJWTBearer
}

// notStoredError means that a token was obtained, and is lost when this process ends.
type notStoredError struct{ err error }

// Error implements error.
func (e *notStoredError) Error() string { return "the token could not be stored: " + e.err.Error() }

// Unwrap returns the error of the store.
func (e *notStoredError) Unwrap() error { return e.err }
