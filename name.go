package mcpvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Separator stands between server and tool in a qualified name. Server names
// hold none, so the first one splits; tool names may hold more.
const Separator = "/"

// AliasPrefix begins every alias.
const AliasPrefix = "mcp__"

const (
	maxServerName = 64
	aliasJoint    = "__"
	aliasHashLen  = 8
)

// MaxAliasBytes is the longest alias in bytes.
const MaxAliasBytes = 64

// CheckServerName reports why a name cannot name a server. A server name is 1
// to 64 characters of [A-Za-z0-9_.-] and begins with a letter or a digit.
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

// SuggestServerName bends any text into a legal server name, for error
// messages that say how to mend one. It may return "".
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

// Qualify joins a server's name and the server's own name of a tool or prompt.
func Qualify(server, name string) string { return server + Separator + name }

// SplitName splits a qualified name at its first separator. ok is false if
// there is none, or nothing on one side of it.
func SplitName(qualified string) (server, name string, ok bool) {
	server, name, ok = strings.Cut(qualified, Separator)
	return server, name, ok && server != "" && name != ""
}

// Alias is the name of a tool for model providers, which take at most 64
// characters of [a-zA-Z0-9_-]: mcp__server__tool. Where characters had to be
// replaced or cut, or where the name would be ambiguous, a hash of the
// qualified name is appended, so that two tools never share an alias; of a
// long name the end is kept, for it says what the tool does.
func Alias(server, name string) string {
	return string(AppendAlias(make([]byte, 0, MaxAliasBytes), server, name))
}

// AppendAlias appends what [Alias] returns.
func AppendAlias(b []byte, server, name string) []byte {
	if plainAlias(server, name) {
		return append(append(append(append(b, AliasPrefix...), server...), aliasJoint...), name...)
	}
	s, n := providerSafe(server), providerSafe(name)
	sum := sha256.Sum256([]byte(Qualify(server, name)))
	hash := "_" + hex.EncodeToString(sum[:])[:aliasHashLen]
	room := MaxAliasBytes - len(AliasPrefix) - len(aliasJoint) - len(hash)
	if len(s)+len(n) > room {
		keep := min(len(s), max(room-len(n), room/3))
		s = s[:keep]
		if len(n) > room-keep {
			n = n[len(n)-(room-keep):]
		}
	}
	b = append(append(append(append(b, AliasPrefix...), s...), aliasJoint...), n...)
	return append(b, hash...)
}

// SplitAlias takes an alias apart into the server's name and the server's own
// name of the tool. ok is false for an alias that ends with a hash: such a one
// can only be looked up. Whether the tool exists is another question.
func SplitAlias(alias string) (server, name string, ok bool) {
	rest, ours := strings.CutPrefix(alias, AliasPrefix)
	server, name, joined := strings.Cut(rest, aliasJoint)
	return server, name, ours && joined && server != "" && name != "" && plainAlias(server, name)
}

// plainAlias reports whether the alias of a tool holds its names as they are,
// so that they can be told apart again: at the first joint.
func plainAlias(server, name string) bool {
	return len(AliasPrefix)+len(server)+len(aliasJoint)+len(name) <= MaxAliasBytes &&
		isProviderSafe(server) && isProviderSafe(name) &&
		!strings.Contains(server, aliasJoint) && !strings.HasSuffix(server, "_") && !strings.HasPrefix(name, "_") &&
		!endsLikeHash(name)
}

// endsLikeHash reports whether a name ends as hashed aliases do, so that it
// could be taken for one.
func endsLikeHash(name string) bool {
	at := len(name) - aliasHashLen
	return at > 0 && name[at-1] == '_' && strings.Trim(name[at:], "0123456789abcdef") == ""
}

func isProviderSafe(s string) bool {
	for i := range len(s) {
		if !providerTakes(rune(s[i])) {
			return false
		}
	}
	return true
}

func providerTakes(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// providerSafe replaces what providers refuse.
func providerSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if providerTakes(r) {
			return r
		}
		return '_'
	}, s)
}
