package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
)

const (
	// maxNameLength is the longest server name, in bytes, as in mcpvisor.CheckServerName.
	maxNameLength = 64
	// nameHashLength is how many hexadecimal digits distinguish derived names.
	nameHashLength = 6
)

// serverNames maps each entry name of a file to a legal server name. Hosts accept
// any text as a name: VS Code's gallery writes "microsoft/playwright-mcp".
//
// A legal name stays as it is. Any other name is derived from the entry name: illegal
// characters become '-'. If another entry has that name already, or would be called the same,
// a hash of the entry name follows. So the order of the entries does not matter.
func serverNames(entries []string) map[string]string {
	names := make(map[string]string, len(entries))
	taken := map[string]bool{}
	wanted := map[string]int{} // how many entries would have a plain name
	for _, entry := range entries {
		if mcpvisor.CheckServerName(entry) == nil {
			names[entry], taken[entry] = entry, true
		} else {
			wanted[plainName(entry)]++
		}
	}
	for _, entry := range entries {
		if _, done := names[entry]; done {
			continue
		}
		name := plainName(entry)
		if taken[name] || wanted[name] > 1 {
			name = hashedName(entry, func(name string) bool { return taken[name] || wanted[name] > 0 })
		}
		names[entry], taken[name] = name, true
	}
	return names
}

// plainName makes a legal name from an entry name.
func plainName(entry string) string {
	return cmp.Or(mcpvisor.SuggestServerName(entry), "server")
}

// hashedName makes a legal name that is not taken. It lengthens the hash if another entry has
// the name already. That happens only on purpose.
func hashedName(entry string, taken func(string) bool) (name string) {
	sum := sha256.Sum256([]byte(entry))
	hash := hex.EncodeToString(sum[:])
	stem := plainName(entry)
	for digits := nameHashLength; digits < maxNameLength-len("s-"); digits += nameHashLength {
		name = stem[:min(len(stem), maxNameLength-1-digits)] + "-" + hash[:digits]
		if !taken(name) {
			break
		}
	}
	return name
}

// warnDerivedName says how the server of an entry with an illegal name is called.
func (e *entry) warnDerivedName(at *hujson.Value) {
	const advice = "the server is called %q; rename the entry to choose another name"
	err := mcpvisor.CheckServerName(e.name)
	switch {
	case err == nil:
	case e.name == "":
		e.warn(at, "the name is empty; "+advice, e.spec.Name)
	case len(e.name) <= maxNameLength:
		e.warn(at, "the name has characters that a server name cannot have; "+advice, e.spec.Name)
	default:
		e.warn(at, "the name is longer than a server name can be; "+advice, e.spec.Name)
	}
}
