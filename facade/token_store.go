package facade

import (
	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth/tokenstore"
)

// NewFileTokenStore is a token store of files in a directory that only their owner can
// read. It is safe for several processes, and durable. An empty dir means
// mcpvisor/tokens below the user's configuration directory, which is also the default
// of OAuth.Store. The error says why the directory cannot be used; a file that another
// user has put there is an error when it is loaded.
func NewFileTokenStore(dir string) (mcpvisor.TokenStore, error) { return tokenstore.NewFile(dir) }

// NewKeyringTokenStore is a token store in the keyring of the operating system: the
// Keychain, the Credential Manager, or a Secret Service on D-Bus. A locked keyring asks
// the user for a password, which is waited for at most 3 s. Windows stores tokens of up
// to 2.5 KB. Unlike [NewFileTokenStore] it has no lock between processes.
func NewKeyringTokenStore() mcpvisor.TokenStore { return tokenstore.NewKeyring() }

// NewMemoryTokenStore is a token store that is lost at the end of the process.
func NewMemoryTokenStore() mcpvisor.TokenStore { return tokenstore.NewMemory() }
