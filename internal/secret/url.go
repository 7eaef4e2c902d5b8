package secret

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// RedactURL returns a URL without user, query and fragment, and with [Mask] for each
// segment of its path that is a token.
func RedactURL(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.ForceQuery, v.Fragment, v.RawFragment = nil, "", false, "", ""
	path := v.EscapedPath()
	v.Path, v.RawPath = "", ""
	segments := strings.Split(path, "/")
	for i := range segments {
		if isToken(segments, i) {
			segments[i] = Mask
		}
	}
	return v.String() + strings.Join(segments, "/")
}

// RedactURI returns the URI of a resource with [Mask] for its user, for each value of its
// query and for its fragment. The rest stays as it is, so that resources can be told apart.
func RedactURI(uri string) string {
	uri, _, hasFragment := strings.Cut(uri, "#")
	uri, query, hasQuery := strings.Cut(uri, "?")
	if scheme, rest, found := strings.Cut(uri, "://"); found {
		authority, path := rest, ""
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			authority, path = rest[:i], rest[i:]
		}
		if i := strings.LastIndexByte(authority, '@'); i >= 0 {
			uri = scheme + "://" + Mask + authority[i:] + path
		}
	}
	if hasQuery {
		pairs := strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' })
		for i, pair := range pairs {
			name, _, named := strings.Cut(pair, "=")
			if pairs[i] = Mask; named {
				pairs[i] = name + "=" + Mask
			}
		}
		uri += "?" + strings.Join(pairs, "&")
	}
	if hasFragment {
		uri += "#" + Mask
	}
	return uri
}

// isToken reports whether a segment of an escaped path is a token: by its form, or
// because the segment before it announces a token, as in /s/<token>/mcp.
func isToken(segments []string, i int) bool {
	segment, err := url.PathUnescape(segments[i])
	if err != nil {
		segment = segments[i]
	}
	if len(segment) < MinLength {
		return false
	}
	if looksRandom(segment) {
		return true
	}
	if i == 0 {
		return false
	}
	before := strings.ToLower(segments[i-1])
	return slices.Contains([]string{"s", "k", "key", "token", "secret", "apikey", "api-key", "api_key"}, before) && len(segment) >= 8
}

// urls matches URLs in a text.
var urls = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>|{}]+`)

// addURLs adds the secrets of all URLs in a text.
func (l *List) addURLs(text string) {
	for _, found := range urls.FindAllString(text, -1) {
		l.addURL(found)
	}
}

// addURL adds the secrets of one URL. It also handles URLs that net/url rejects.
func (l *List) addURL(text string) {
	scheme, rest, _ := strings.Cut(text, "://")
	rest, fragment, _ := strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(rest, '@'); at > len(authority) && strings.Contains(authority, ":") {
		// The password contains a "/", so the authority ends later.
		if _, port, _ := strings.Cut(authority, ":"); strings.Trim(port, "0123456789") != "" {
			authority, path, _ = cutAuthority(rest, at)
		}
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, hasPassword := strings.Cut(authority[:at], ":")
		l.addEscaped(password, url.PathUnescape)
		if looksSecret(user) || !hasPassword && strings.HasPrefix(scheme, "http") {
			l.addEscaped(user, url.PathUnescape)
		}
		if hasPassword {
			l.Add(authority[:at])
			name, _ := url.PathUnescape(user)
			plain, _ := url.PathUnescape(password)
			l.Add(base64.StdEncoding.EncodeToString([]byte(name + ":" + plain)))
		}
	}
	l.addPath("/" + path)
	l.addQuery(query, false)
	l.addQuery(fragment, false)
}

// cutAuthority splits the rest of a URL after the host that follows the "@" at index at.
func cutAuthority(rest string, at int) (authority, path string, ok bool) {
	host, path, ok := strings.Cut(rest[at:], "/")
	return rest[:at] + host, path, ok
}

// addPath adds the tokens among the segments of an escaped path.
func (l *List) addPath(escaped string) {
	segments := strings.Split(escaped, "/")
	for i, segment := range segments {
		if isToken(segments, i) {
			l.addEscaped(segment, url.PathUnescape)
		}
	}
}

// addQuery adds the values of a query: all of them, or those that have the name of a
// secret or are not plain words.
func (l *List) addQuery(query string, all bool) {
	found := false
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			name, value = "", pair
		}
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if all || isSecretName(name) && !isHarmless(value) || !isPlainWord(value) {
			found = found || len(value) >= MinLength
			l.addEscaped(value, url.QueryUnescape)
		}
	}
	if found || all {
		l.Add(query)
	}
}

// MaskQuery returns a query with [Mask] for each value that has the name of a secret, and without
// its fragment.
func MaskQuery(query string) string {
	query, _, _ = strings.Cut(query, "#")
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		if err == nil && isSecretName(plain) && !isHarmless(value) {
			pairs[i] = name + "=" + Mask
		}
	}
	return strings.Join(pairs, "&")
}

// addEscaped adds a value both as it is escaped in a URL and unescaped.
func (l *List) addEscaped(value string, unescape func(string) (string, error)) {
	l.Add(value)
	if plain, err := unescape(value); err == nil && plain != value {
		l.Add(plain)
	}
}

// isPlainWord reports whether a value is one short word or a number.
func isPlainWord(value string) bool {
	return len(value) <= 16 && (strings.Trim(value, "abcdefghijklmnopqrstuvwxyz") == "" || strings.Trim(value, "0123456789.") == "") || isHarmless(value)
}

// AddEndpoint adds the secrets of the URL of a server over HTTP: its user, its
// password, the values of its query and the tokens in its path.
func (l *List) AddEndpoint(u *url.URL) {
	l.addURL(u.String())
	l.addQuery(u.RawQuery, true)
	if u.User != nil {
		name := u.User.Username()
		password, _ := u.User.Password()
		l.Add(name, password, u.User.String(), base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
	}
}
