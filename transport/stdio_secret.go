package transport

import (
	"net/url"
	"strings"
	"unicode"

	"github.com/mcpvisor/mcpvisor/messages"
)

// veilOf hides what a stdio server was given in confidence: variables of its
// environment and arguments that are secrets by their name or by their looks,
// and passwords in URLs. Servers print them when they complain ("invalid key
// sk-…"), and what they print is shown, logged and handed to models. Not
// everything is hidden: a complaint about a path is of no use without the path.
func veilOf(s *messages.Stdio) veil {
	var found secretList
	consider := func(name, value string) {
		switch {
		case isSecretName(name), looksSecret(value):
			found.add(value)
			for line := range strings.Lines(value) { // a key in PEM is printed line by line
				found.add(strings.TrimSpace(line))
			}
		case strings.Contains(value, "://"):
			if u, err := url.Parse(value); err == nil && u.User != nil {
				password, _ := u.User.Password()
				_, escaped, _ := strings.Cut(u.User.String(), ":")
				found.add(password, url.PathEscape(password), url.QueryEscape(password), escaped, passwordIn(value))
			}
		}
	}
	for name, value := range s.Env {
		consider(name, value)
	}
	before := ""
	for _, arg := range s.Args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			name, value = before, arg
		}
		if !strings.HasPrefix(name, "-") && !ok {
			name = ""
		}
		consider(name, value)
		if before = ""; strings.HasPrefix(arg, "-") && !ok {
			before = arg
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found.replacer().Replace
}

// passwordIn is the password of a URL as it is spelt there.
func passwordIn(value string) string {
	_, authority, _ := strings.Cut(value, "://")
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		authority = authority[:end]
	}
	_, password, _ := strings.Cut(authority[:max(strings.LastIndexByte(authority, '@'), 0)], ":")
	return password
}

// secretWords are what the names of secrets are made of.
var secretWords = []string{"key", "token", "secret", "passw", "passphrase", "pwd", "auth", "credential", "cookie", "bearer", "private", "pat"}

func isSecretName(name string) bool {
	for _, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) }) {
		for _, secret := range secretWords {
			if word == secret || len(secret) > 3 && strings.Contains(word, secret) || strings.HasSuffix(word, "key") {
				return true
			}
		}
	}
	return false
}

// secretPrefixes begin the tokens of well-known services.
var secretPrefixes = []string{"sk-", "sk_", "pk_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xox", "AKIA", "eyJ", "ya29.", "npm_", "ntn_", "Bearer "}

// looksSecret recognises a token without a name: one of a well-known kind, or a
// long mixture of letters and digits that is neither a path nor a version.
func looksSecret(value string) bool {
	for _, prefix := range secretPrefixes {
		if strings.HasPrefix(value, prefix) && len(value) >= len(prefix)+8 {
			return true
		}
	}
	if len(value) < 24 || strings.ContainsAny(value, "/\\ .:@,") {
		return false
	}
	upper, lower, digit := false, false, false
	for _, r := range value {
		upper, lower, digit = upper || unicode.IsUpper(r), lower || unicode.IsLower(r), digit || unicode.IsDigit(r)
	}
	return digit && (upper && lower || isHex(value))
}

func isHex(value string) bool {
	return strings.TrimLeft(strings.ToLower(value), "0123456789abcdef-") == ""
}
