package config

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/mcpvisor/mcpvisor/messages"
)

const (
	// maxNameLength is the longest server name, in bytes; see [messages.CheckServerName].
	maxNameLength = 64
	// nameHashLength is how many hexadecimal digits tell two derived names apart.
	nameHashLength = 8
)

// serverNames maps each entry name of a file to a legal server name. Hosts take
// any text as a name: VS Code's gallery writes "microsoft/playwright-mcp".
//
// A legal name stays as it is. Any other name is derived from the entry name
// alone, so that it is the same at each start: illegal characters become '-'.
// Where two entries would get one name, the derived ones end with a hash of
// the entry name.
func serverNames(entries []string) map[string]string {
	names := make(map[string]string, len(entries))
	taken := map[string]bool{}
	wanted := map[string]int{}
	for _, entry := range entries {
		if messages.CheckServerName(entry) == nil {
			names[entry], taken[entry] = entry, true
		} else {
			wanted[messages.SuggestServerName(entry)]++
		}
	}
	var rest []string
	for _, entry := range entries {
		if _, done := names[entry]; done {
			continue
		}
		short := messages.SuggestServerName(entry)
		if short == "" || taken[short] || wanted[short] > 1 {
			rest = append(rest, entry)
			continue
		}
		names[entry] = short
	}
	for _, short := range names {
		taken[short] = true
	}
	for _, entry := range rest {
		if _, done := names[entry]; done {
			continue
		}
		name := hashedName(entry, taken)
		names[entry], taken[name] = name, true
	}
	return names
}

// hashedName derives a name that is not taken yet.
func hashedName(entry string, taken map[string]bool) string {
	sum := sha256.Sum256([]byte(entry))
	hash := hex.EncodeToString(sum[:])
	stem := messages.SuggestServerName(entry)
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
