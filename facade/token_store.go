package facade

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth/tokenstore"
)

// NewFileTokenStore is a token store of files in a directory that only their owner can
// read. It is safe for several processes, and durable. An empty dir means
// mcpvisor/tokens below the user's configuration directory, which is also the default
// of OAuth.Store; if the host has no such directory, that is an error. The directory
// itself is first used, and made, by Load and Save: their errors say why it cannot be used,
// and so does the error about a file that another user has put there.
func NewFileTokenStore(dir string) (mcpvisor.TokenStore, error) { return tokenstore.NewFile(dir) }

// NewKeyringTokenStore is a token store in the keyring of the operating system: the
// Keychain, the Credential Manager, or a Secret Service on D-Bus. A locked keyring asks
// the user for a password; after 3 s the operation of the store fails, and so does one
// without a keyring. A store that never worked counts as empty: calls fail
// with ErrAuthRequired, and the log says why. One that worked before gives
// ErrUnavailable. Tokens that cannot be stored are used until the process ends. Windows stores tokens of up to 2.5 KB; Save fails for longer
// ones. Unlike [NewFileTokenStore] it has no lock between processes.
func NewKeyringTokenStore() mcpvisor.TokenStore { return tokenstore.NewKeyring() }

// NewMemoryTokenStore is a token store that is lost at the end of the process.
func NewMemoryTokenStore() mcpvisor.TokenStore { return tokenstore.NewMemory() }
