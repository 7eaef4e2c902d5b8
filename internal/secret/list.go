// Package secret finds what must not be shown: the secrets among the values
// that a server is given, in every form in which the server may repeat them.
package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Mask stands where a secret was.
const Mask = "***"

// MinLength is the shortest value in bytes that is hidden: a shorter one would
// hide half of the text instead.
const MinLength = 6

// PartLength is how long the parts of a long secret are, in bytes, that are hidden
// by themselves: a text that was cut within the secret holds some of them.
const PartLength = 512

// List collects secrets. The zero value is empty and ready to use.
type List struct {
	values []string
}

// Empty reports whether no secret was found.
func (l *List) Empty() bool { return len(l.values) == 0 }

// Replacer returns what replaces each secret by [Mask]. It is safe for use by
// several goroutines.
func (l *List) Replacer() *strings.Replacer {
	all := slices.Clone(l.values)
	slices.Sort(all)
	all = slices.Compact(all)
	// The longest first: what is left of a secret is one too.
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, s, Mask)
	}
	return strings.NewReplacer(pairs...)
}

// Add adds secrets in the forms in which text may hold them: as they are, within
// a JSON string, and escaped as in a URL.
func (l *List) Add(values ...string) {
	for _, s := range values {
		if len(s) < MinLength {
			continue
		}
		l.values = append(l.values, s)
		// A piece of JSON that is no JSON by itself may hold it.
		if quoted, err := json.Marshal(s); err == nil {
			inner := string(quoted[1 : len(quoted)-1])
			l.values = append(l.values, inner, strings.ReplaceAll(inner, "/", `\/`))
		}
		l.values = append(l.values, url.QueryEscape(s), url.PathEscape(s))
		for part := s; len(part) > PartLength; part = part[PartLength:] {
			l.values = append(l.values, part[:PartLength])
		}
	}
}

// credential adds a value that is a secret as a whole, and the parts of it that
// are secrets on their own: each line of a key in PEM, the token behind a scheme
// ("Bearer …"), user and password of the Basic scheme (RFC 7617).
func (l *List) credential(value string) {
	value = unquote(strings.TrimSpace(value))
	if isHarmless(value) {
		return
	}
	l.Add(value)
	for line := range strings.Lines(value) {
		l.Add(strings.TrimSpace(line))
	}
	if _, password, ok := strings.Cut(value, ":"); ok && !strings.HasPrefix(password, "//") { // user:password
		l.Add(strings.TrimSpace(password))
	}
	scheme, token, ok := strings.Cut(value, " ")
	if !ok || strings.ContainsAny(scheme, "=:;,") {
		return
	}
	token = strings.TrimSpace(token)
	l.Add(token)
	if login, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(login), ":")
		l.Add(string(login), password)
	}
}

func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
