package mcpvisor

import (
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// separator stands between server and tool in a qualified name. Server names do not
// contain it, so the first one splits; tool names may contain it.
const separator = "/"

// maxServerName is the longest server name, in bytes.
const maxServerName = 64

// CheckServerName returns an error if name is not a valid server name. A server name has 1 to 64
// characters of [A-Za-z0-9_.-]; the first is a letter or a digit.
func CheckServerName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("server name is empty; give the server a name of letters, digits, '_', '.' or '-'")
	case len(name) > maxServerName:
		return fmt.Errorf("server name %.20q… is %d characters long; use at most %d", name, len(name), maxServerName)
	}
	for i, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case i > 0 && (r == '_' || r == '.' || r == '-'):
		default:
			return fmt.Errorf("server name %q holds %q at position %d; use letters, digits, '_', '.' or '-', beginning with a letter or digit", name, r, i+1)
		}
	}
	return nil
}

// SuggestServerName derives a legal server name from any text, for error messages. It
// returns "" if the text has no letter and no digit.
func SuggestServerName(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() == 0:
		case r == '_' || r == '.':
			b.WriteRune(r)
		default:
			if !strings.HasSuffix(b.String(), "-") {
				b.WriteByte('-')
			}
		}
	}
	s := b.String()
	if len(s) > maxServerName {
		s = s[:maxServerName]
	}
	return strings.TrimRight(s, "-")
}

// Qualify joins the name of a server and the server's own name of a tool or prompt:
// Qualify("fs", "list") is "fs/list".
func Qualify(server, name string) string { return server + separator + name }

// SplitName splits a qualified name at its first separator. ok is false if there is no
// separator, or nothing on one side of it.
func SplitName(qualified string) (server, name string, ok bool) {
	server, name, ok = strings.Cut(qualified, separator)
	return server, name, ok && server != "" && name != ""
}

// Alias is a tool's name for language model providers, which take at most 64 characters of
// [a-zA-Z0-9_-]: "mcp__fs__list" for tool "list" of server "fs". If a name is too long, is
// ambiguous or has other characters, it is changed to fit and a hash of the qualified name is
// appended, so that two tools never share an alias. A name that is too long loses its beginning.
func Alias(server, name string) string {
	return toolname.Join(toolname.AliasPrefix, server, name, Qualify(server, name), toolname.MaxAliasBytes)
}

// SplitAlias returns the server and the server's own name of the tool that an alias
// stands for. ok is false for an alias with a hash, which can only be looked up
// (facade.Client.Tool). SplitAlias does not check whether the tool exists.
func SplitAlias(alias string) (server, name string, ok bool) {
	return toolname.Split(toolname.AliasPrefix, alias, toolname.MaxAliasBytes)
}
