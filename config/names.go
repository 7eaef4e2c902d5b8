package config

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/mcpvisor/mcpvisor"
)

const (
	// maxNameLength is the longest server name, in bytes; see [mcpvisor.CheckServerName].
	maxNameLength = 64
	// nameHashLength is how many hexadecimal digits tell two derived names apart.
	nameHashLength = 6
)

// serverNames maps each entry name of a file to a legal server name. Hosts take
// any text as a name: VS Code's gallery writes "microsoft/playwright-mcp".
//
// A legal name stays as it is. Any other name is derived from the entry name
// alone: illegal characters become '-', and a hash of the entry name follows. So it
// is the same at each start, whatever other entries come and go, and a call never
// reaches another server because an entry was added.
func serverNames(entries []string) map[string]string {
	names := make(map[string]string, len(entries))
	taken := map[string]bool{}
	for _, entry := range entries {
		if mcpvisor.CheckServerName(entry) == nil {
			names[entry], taken[entry] = entry, true
		}
	}
	for _, entry := range entries {
		if _, done := names[entry]; done {
			continue
		}
		name := derivedName(entry, taken)
		names[entry], taken[name] = name, true
	}
	return names
}

// derivedName makes a name of an entry name. A longer hash is taken if another
// entry has the name already, which happens by intent only.
func derivedName(entry string, taken map[string]bool) string {
	sum := sha256.Sum256([]byte(entry))
	hash := hex.EncodeToString(sum[:])
	stem := mcpvisor.SuggestServerName(entry)
	if stem == "" {
		stem = "server"
	}
	name := ""
	for digits := nameHashLength; digits < maxNameLength-len("s-"); digits += nameHashLength {
		name = stem[:min(len(stem), maxNameLength-1-digits)] + "-" + hash[:digits]
		if !taken[name] {
			break
		}
	}
	return name
}
