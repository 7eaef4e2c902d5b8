// Package tokenstore keeps OAuth registrations and tokens: in files, in the keyring
// of the operating system, or in memory.
//
// All stores implement mcpvisor.TokenStore. File and memory stores also implement
// mcpvisor.TokenLocker. All are safe for concurrent use.
package tokenstore

import "errors"

// ErrUnreadable is the error of Load for an entry that no later attempt can read.
// Any other error of Load may be temporary.
var ErrUnreadable = errors.New("the stored tokens cannot be parsed")
