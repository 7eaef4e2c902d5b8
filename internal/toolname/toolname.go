// Package toolname makes names of tools and prompts that language model providers accept: at
// most 64 characters of [a-zA-Z0-9_-]. A name that does not fit is changed, and gets a hash of
// the qualified name appended, so that two tools do not share a name.
package toolname

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// Separator is between server and tool.
	Separator = "__"
	hashLen   = 8
)

const (
	// AliasPrefix begins every alias.
	AliasPrefix = "mcp__"
	// MaxAliasBytes is the length of the longest alias.
	MaxAliasBytes = 64
)

// MinBytes is the shortest limit that leaves room for a server, a tool and a hash.
const MinBytes = 24

// Join returns prefix + server + "__" + name, or a changed form of it with a hash of qualified, in
// at most limit bytes. Of a long name the end is kept. The limit is at least MinBytes beyond prefix.
func Join(prefix, server, name, qualified string, limit int) string {
	if IsPlain(prefix, server, name, limit) {
		return prefix + server + Separator + name
	}
	s, n := replaceUnsafe(server), replaceUnsafe(name)
	hash := hashOf(qualified)
	room := limit - len(prefix) - len(Separator) - len(hash)
	if len(s)+len(n) > room {
		keep := min(len(s), max(room-len(n), room/3))
		s = s[:keep]
		if len(n) > room-keep {
			n = n[len(n)-(room-keep):] // the end says what the tool does
		}
	}
	return prefix + s + Separator + n + hash
}

// Split returns the server and the name that Join has joined unchanged.
func Split(prefix, joined string, limit int) (server, name string, ok bool) {
	rest, prefixed := strings.CutPrefix(joined, prefix)
	server, name, separated := strings.Cut(rest, Separator)
	return server, name, prefixed && separated && server != "" && name != "" && IsPlain(prefix, server, name, limit)
}

// IsPlain reports whether Join leaves the names unchanged, and Split can split the result
// again at the first separator.
func IsPlain(prefix, server, name string, limit int) bool {
	return len(prefix)+len(server)+len(Separator)+len(name) <= limit &&
		isSafe(server) && isSafe(name) &&
		!strings.Contains(server, Separator) && !strings.HasSuffix(server, "_") && !strings.HasPrefix(name, "_") &&
		!endsLikeHash(name)
}

// Fit returns the name itself, or a changed form with a hash of qualified in at most limit bytes.
func Fit(name, qualified string, limit int) string {
	if name != "" && len(name) <= limit && isSafe(name) && !endsLikeHash(name) {
		return name
	}
	n, hash := replaceUnsafe(name), hashOf(qualified)
	if room := limit - len(hash); len(n) > room {
		n = n[len(n)-room:]
	}
	return n + hash
}

func hashOf(qualified string) string {
	sum := sha256.Sum256([]byte(qualified))
	return "_" + hex.EncodeToString(sum[:])[:hashLen]
}

// endsLikeHash reports whether a name ends as names with a hash do, and so could be
// mistaken for one.
func endsLikeHash(name string) bool {
	at := len(name) - hashLen
	return at > 0 && name[at-1] == '_' && strings.Trim(name[at:], "0123456789abcdef") == ""
}

func isSafe(s string) bool {
	for i := range len(s) {
		if !isSafeRune(rune(s[i])) {
			return false
		}
	}
	return true
}

func isSafeRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// replaceUnsafe replaces each character that providers reject by "_".
func replaceUnsafe(s string) string {
	return strings.Map(func(r rune) rune {
		if isSafeRune(r) {
			return r
		}
		return '_'
	}, s)
}
