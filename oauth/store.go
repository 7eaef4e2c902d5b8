package oauth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/oauth/internal/tokenstore"
)

// TokenStore keeps authorizations beyond the end of the process. It must be safe for
// concurrent use. A store that several processes share should also implement
// [TokenLocker]. A method that ignores its context or panics blocks no caller: it runs
// in a goroutine of its own.
type TokenStore interface {
	// Load returns the stored authorization, or nil and no error if nothing is stored.
	Load(ctx context.Context, key TokenKey) (*Authorization, error)
	// Save stores an authorization. When it returns nil, the authorization must survive
	// the end of the process. It must not keep a.
	Save(ctx context.Context, key TokenKey, a *Authorization) error
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

// Authorization is a record of a [TokenStore]: the registration of a client at one
// authorization server, and its tokens. It holds secrets; its String and GoString show
// none. The names in JSON are stable, so that stores can be read by later versions.
//
//nolint:recvcheck // Clone accepts nil, and printing needs values
type Authorization struct {
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

// Clone returns a copy that shares no memory with a.
func (a *Authorization) Clone() *Authorization {
	if a == nil {
		return nil
	}
	c := *a
	c.Scopes, c.RequestedScopes, c.StepUpScopes = slices.Clone(a.Scopes), slices.Clone(a.RequestedScopes), slices.Clone(a.StepUpScopes)
	return &c
}

// String names the resource and the issuer, and shows no secret.
func (a Authorization) String() string {
	return fmt.Sprintf("authorization of %s by %s (secrets hidden)", a.Resource, a.Issuer)
}

// GoString is String, so that %#v shows no secret either.
func (a Authorization) GoString() string { return a.String() }

// memoryStore keeps authorizations until the process ends.
type memoryStore struct {
	mu      sync.Mutex
	entries map[TokenKey]*Authorization // guarded by mu
	locks   map[TokenKey]chan struct{}  // guarded by mu; each is a mutex as a channel
}

// NewMemoryStore returns a store that is lost at the end of the process.
func NewMemoryStore() TokenStore {
	return &memoryStore{entries: map[TokenKey]*Authorization{}, locks: map[TokenKey]chan struct{}{}}
}

// Load implements TokenStore.
func (s *memoryStore) Load(_ context.Context, key TokenKey) (*Authorization, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key].Clone(), nil
}

// Save implements TokenStore.
func (s *memoryStore) Save(_ context.Context, key TokenKey, a *Authorization) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = a.Clone()
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
	s, err := tokenstore.NewFile[TokenKey, Authorization](dir)
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
func NewKeyringStore() TokenStore { return tokenstore.NewKeyring[TokenKey, Authorization]() }
