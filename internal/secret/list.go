// Package secret finds secrets among the values that a server is given, and masks them
// in the text that the server sends back: errors, stderr and log messages.
//
// A [List] collects the secrets of an environment, of arguments, headers and URLs. It
// recognizes them by the name of the value ("API_TOKEN"), by the form of the value
// ("ghp_…") or by the place in a URL. Each secret is masked in every form in which text
// may hold it: as it is, escaped as in JSON and in a URL, and in parts.
package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Mask replaces a secret.
const Mask = "***"

// MinLength is the shortest value in bytes that is masked. Shorter values occur in
// ordinary words.
const MinLength = 6

// PartLength is the length in bytes of the parts of a long secret that are masked on
// their own. A text that was cut inside the secret holds some of them.
const PartLength = 512

// List collects secrets. The zero value is empty and ready to use. Not safe for
// concurrent use.
type List struct {
	values []string // in every form that is masked
}

// Empty reports whether no secret was found.
func (l *List) Empty() bool { return len(l.values) == 0 }

// Replacer returns a replacer of every secret by [Mask]. The replacer is safe for
// concurrent use and does not change when the list does.
func (l *List) Replacer() *strings.Replacer {
	all := slices.Clone(l.values)
	slices.Sort(all)
	all = slices.Compact(all)
	// The longest first, so that no rest of a secret stays beside the mask.
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, s, Mask)
	}
	return strings.NewReplacer(pairs...)
}

// Add adds secrets in the forms in which text may hold them: as they are, as in a JSON
// string, and escaped as in a URL. Values shorter than [MinLength] are ignored.
func (l *List) Add(values ...string) {
	for _, s := range values {
		if len(s) < MinLength {
			continue
		}
		l.values = append(l.values, s)
		// Text that is not JSON may contain a part of a JSON string.
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

// AddList adds what another list holds.
func (l *List) AddList(other *List) { l.values = append(l.values, other.values...) }

// addCredential adds a value that is a secret as a whole, and its parts that are
// secrets on their own: each line of a PEM key, the token after an authentication
// scheme ("Bearer …"), and user and password of the Basic scheme (RFC 7617).
func (l *List) addCredential(value string) {
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

// unquote removes a pair of quotes around a value.
func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
