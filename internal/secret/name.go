package secret

import (
	"slices"
	"strings"
	"unicode"
)

// nameParts occur inside the words of names of secrets. nameWords are whole words.
var (
	nameParts = []string{"token", "secret", "passw", "passphrase", "passcode", "auth", "credential", "cookie", "bearer", "private"}
	nameWords = []string{"key", "pwd", "pass", "pat", "sig", "signature", "jwt", "pin", "otp"}
)

// isSecretName reports whether a variable, flag, header or member of that name
// holds a secret.
func isSecretName(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) })
	for _, word := range words {
		if slices.Contains(nameWords, word) || strings.HasSuffix(word, "key") {
			return true
		}
		if strings.Contains(word, "author") && !strings.Contains(word, "authoriz") { // AUTHOR, XAUTHORITY
			continue
		}
		if slices.ContainsFunc(nameParts, func(part string) bool { return strings.Contains(word, part) }) {
			return true
		}
	}
	return false
}

// isFilePath reports whether a variable holds the path of a file, as SSH_AUTH_SOCK and
// TOKEN_FILE do. Paths are shown, because an error about a path needs the path.
func isFilePath(name, value string) bool {
	if !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~") && !strings.HasPrefix(value, ".") && !strings.Contains(value, `:\`) {
		return false
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"file", "path", "dir", "sock"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// isTokenCount reports whether a variable holds a number of language model tokens, as
// MAX_TOKENS does.
func isTokenCount(name, value string) bool {
	name = strings.ToLower(name)
	return strings.Trim(value, "0123456789") == "" &&
		slices.ContainsFunc([]string{"max", "min", "limit", "count", "tokens"}, func(part string) bool { return strings.Contains(name, part) })
}

// isHeaderName reports whether a flag or variable of that name holds headers.
func isHeaderName(name string) bool {
	return name == "-H" || strings.Contains(strings.ToLower(name), "header")
}

// isPublicHeader reports whether headers of that name hold no secrets.
func isPublicHeader(name string) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "accept", "content-type", "content-length", "user-agent", "host", "origin", "referer", "cache-control", "connection", "date":
		return true
	}
	return strings.HasPrefix(name, "accept-") || strings.HasSuffix(name, "version")
}

// harmless are values that name an option and are no secret under any name.
var harmless = []string{"always", "apikey", "basic", "bearer", "default", "digest", "disabled", "enabled", "keyring", "localhost",
	"oauth2", "optional", "prefer", "required", "require", "undefined", "verify-full", "verify-ca"}

func isHarmless(value string) bool { return slices.Contains(harmless, strings.ToLower(value)) }

// tokenPrefixes are the prefixes of the tokens of well-known services.
var tokenPrefixes = []string{"sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "AKIA", "ASIA", "AIza",
	"eyJ", "ya29.", "npm_", "ntn_", "hf_", "gsk_", "SG.", "whsec_", "lin_api_", "dop_v1_", "shpat_", "glsa_", "figd_", "tvly-", "Bearer ", "Basic "}

// looksSecret reports whether a value is a token by its form: it has a well-known
// prefix, or is a long mixture of letters and digits and neither a path nor a version.
func looksSecret(value string) bool {
	for _, prefix := range tokenPrefixes {
		if strings.HasPrefix(value, prefix) && len(value) >= len(prefix)+8 {
			return true
		}
	}
	if len(value) < 24 || strings.ContainsAny(value, "/\\ .:@,") {
		return false
	}
	c := countChars(value)
	return c.digits > 0 && (c.upper > 0 && c.lower > 0 || isHex(value))
}

// looksRandom reports whether a segment of a path was generated and is not made of
// words: letters and digits alternate.
func looksRandom(segment string) bool {
	if looksSecret(segment) {
		return true
	}
	c := countChars(segment)
	if len(segment) < 16 || c.other > 0 || c.upper+c.lower == 0 {
		return false
	}
	return c.digits > 0 && isHex(segment) || 5*c.changes >= len(segment)
}

func isHex(value string) bool {
	return strings.TrimLeft(strings.ToLower(value), "0123456789abcdef-") == ""
}

// charCounts are the numbers of characters of a text by kind.
type charCounts struct {
	upper, lower, digits int
	other                int // characters that do not occur in tokens
	// changes is how often the kind changes. A capital letter at the beginning of a
	// word does not count.
	changes int
}

func countChars(text string) (c charCounts) {
	const (
		none = iota
		upper
		lower
		digit
	)
	last := none
	for _, r := range text {
		kind := none
		switch {
		case r >= 'A' && r <= 'Z':
			kind = upper
			c.upper++
		case r >= 'a' && r <= 'z':
			kind = lower
			c.lower++
		case r >= '0' && r <= '9':
			kind = digit
			c.digits++
		case strings.ContainsRune("_-~=.%+", r):
		default:
			c.other++
		}
		if kind == none {
			continue
		}
		if last != none && kind != last && (last != upper || kind != lower) {
			c.changes++
		}
		last = kind
	}
	return c
}
