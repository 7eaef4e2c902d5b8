package offer

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A pattern compares the text of a URI, and its server reads the URI with a library of its own. So a
// URI must be written in the one way that all readers read alike: RFC 3986, the WHATWG URL standard, and
// servers that take the path as it is, or unescape it more than once.

// maxEscapes is how many times a URI is unescaped.
const maxEscapes = 4

// lookalikes are characters that normalization (NFKC) and readers of file names turn into one of those
// that separate the parts of a URI, or into dots.
const lookalikes = "\u2024\u2025\u2026\ufe19\ufe30\ufe52\uff0e" + // dots
	"\uff0f\u2044\u2215\u29f8\uff3c\ufe68\u29f5\u2216" + // slashes
	"\uff05\ufe6a\uff1f\ufe56\u2047\u2048\u2049\uff03\ufe5f\uff1a\ufe13\ufe55\uff20\ufe6b\uff1b\ufe14\ufe54" // %?#:@;

// defaultPorts are the schemes that the WHATWG URL standard reads in a special way, with their ports.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

var (
	expression = regexp.MustCompile(`\{[^{}]*\}`) // of a template
	// needlessEscape is the escape of a character that no URI needs to escape (RFC 3986, 2.3).
	needlessEscape = regexp.MustCompile(`%(2[DdEe]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]|7[Ee])`)
)

// readings returns what readers may make of a URI: without its fragment, its query and a slash at its end, and
// unescaped. plain is false if readers differ in more than that.
func readings(uri string) (all []string, plain bool) {
	if needlessEscape.MatchString(uri) || strings.ContainsRune(uri, ' ') || !isPlainURL(expression.ReplaceAllString(strings.Replace(uri, "file://{", "file:///{", 1), "x")) {
		return nil, false
	}
	for range maxEscapes {
		if !isPlain(uri) {
			return nil, false
		}
		path, _, _ := strings.Cut(uri, "#")
		all = append(all, uri, path)
		path, _, _ = strings.Cut(path, "?")
		all = append(all, path, strings.TrimRight(path, "/"))
		next, err := url.PathUnescape(uri)
		if err != nil || next == uri {
			return all, err == nil
		}
		uri = next
	}
	return nil, false
}

// isPlain reports whether a URI, or what is left of it when it is unescaped, has no byte that some readers drop
// or change, and no segment that some of them resolve.
func isPlain(uri string) bool {
	changed := func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || strings.ContainsRune(`\`+lookalikes, r) }
	if !utf8.ValidString(uri) || strings.ContainsFunc(uri, changed) {
		return false
	}
	for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune("/?#", r) }) {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." { // some drop what follows a semicolon
			return false
		}
	}
	return true
}

// isPlainURL reports whether the scheme and the authority of a URI are in their normal form, and its path has no
// empty segment.
func isPlainURL(uri string) bool {
	scheme, rest, absolute := strings.Cut(uri, ":")
	port, special := defaultPorts[strings.ToLower(scheme)]
	if !special {
		return !absolute || scheme == strings.ToLower(scheme) || strings.ContainsAny(scheme, "/?#")
	}
	u, err := url.Parse(uri)
	if err != nil || scheme != u.Scheme || !strings.HasPrefix(rest, "//") || u.User != nil || u.Host != strings.ToLower(u.Host) ||
		strings.ContainsFunc(u.Host, func(r rune) bool { return r >= utf8.RuneSelf }) { // others have several spellings
		return false
	}
	name := u.Hostname()
	isIP := net.ParseIP(name) != nil
	switch {
	case (scheme == "file") != (u.Host == ""): // a host of a file is read, dropped or refused
		return false
	case strings.HasSuffix(name, ".") || strings.Contains(name, "%") || strings.HasSuffix(u.Host, ":") || port != "" && u.Port() == port:
		return false
	case !isIP && name != "" && slices.ContainsFunc(strings.Split(name, ".")[strings.Count(name, "."):], isNumber): // 127.1 and 0x7f.1 are addresses for some
		return false
	}
	path, _, _ := strings.Cut(rest[2:], "#")
	path, _, _ = strings.Cut(path, "?")
	return !strings.Contains(path[len(u.Host):], "//")
}

// isNumber reports whether readers take a label as a number.
func isNumber(label string) bool {
	return label != "" && strings.Trim(label, "0123456789") == "" || strings.HasPrefix(label, "0x")
}
