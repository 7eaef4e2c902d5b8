package mcpvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// AliasPrefix begins every alias.
const AliasPrefix = "mcp__"

// MaxAliasBytes is the length of the longest alias, in bytes.
const MaxAliasBytes = 64

const (
	aliasSeparator = "__" // between server and tool
	aliasHashLen   = 8
)

// Alias is a tool's name for language model providers, which take at most 64
// characters of [a-zA-Z0-9_-]: "mcp__fs__list" for tool "list" of server "fs". A name
// with other characters, too long, or ambiguous, is changed to fit and gets a hash of
// the qualified name appended, so that two tools never share an alias. Of a long name
// the end is kept.
func Alias(server, name string) string {
	return string(AppendAlias(make([]byte, 0, MaxAliasBytes), server, name))
}

// AppendAlias appends [Alias] to b.
func AppendAlias(b []byte, server, name string) []byte {
	if isPlainAlias(server, name) {
		return append(append(append(append(b, AliasPrefix...), server...), aliasSeparator...), name...)
	}
	s, n := replaceUnsafe(server), replaceUnsafe(name)
	sum := sha256.Sum256([]byte(Qualify(server, name)))
	hash := "_" + hex.EncodeToString(sum[:])[:aliasHashLen]
	room := MaxAliasBytes - len(AliasPrefix) - len(aliasSeparator) - len(hash)
	if len(s)+len(n) > room {
		keep := min(len(s), max(room-len(n), room/3))
		s = s[:keep]
		if len(n) > room-keep {
			n = n[len(n)-(room-keep):] // the end says what the tool does
		}
	}
	b = append(append(append(append(b, AliasPrefix...), s...), aliasSeparator...), n...)
	return append(b, hash...)
}

// SplitAlias returns the server and the server's own name of the tool that an alias
// stands for. ok is false for an alias with a hash, which can only be looked up
// (facade.Client.Tool). SplitAlias does not check whether the tool exists.
func SplitAlias(alias string) (server, name string, ok bool) {
	rest, prefixed := strings.CutPrefix(alias, AliasPrefix)
	server, name, separated := strings.Cut(rest, aliasSeparator)
	return server, name, prefixed && separated && server != "" && name != "" && isPlainAlias(server, name)
}

// isPlainAlias reports whether the alias of a tool contains its names unchanged and can
// be split again at the first separator.
func isPlainAlias(server, name string) bool {
	return len(AliasPrefix)+len(server)+len(aliasSeparator)+len(name) <= MaxAliasBytes &&
		isProviderSafe(server) && isProviderSafe(name) &&
		!strings.Contains(server, aliasSeparator) && !strings.HasSuffix(server, "_") && !strings.HasPrefix(name, "_") &&
		!endsLikeHash(name)
}

// endsLikeHash reports whether a name ends as aliases with a hash do, and so could be
// mistaken for one.
func endsLikeHash(name string) bool {
	at := len(name) - aliasHashLen
	return at > 0 && name[at-1] == '_' && strings.Trim(name[at:], "0123456789abcdef") == ""
}

func isProviderSafe(s string) bool {
	for i := range len(s) {
		if !isProviderSafeRune(rune(s[i])) {
			return false
		}
	}
	return true
}

func isProviderSafeRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// replaceUnsafe replaces each character that providers reject by "_".
func replaceUnsafe(s string) string {
	return strings.Map(func(r rune) rune {
		if isProviderSafeRune(r) {
			return r
		}
		return '_'
	}, s)
}
