package offer

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A pattern compares the text of a URI, and its server reads the URI with a library of its own. So a
// URI must be written in the one way that all readers read alike: RFC 3986, the WHATWG URL standard, and
// servers that take the path as it is, or unescape it more than once.

// maxEscapes is how many times a URI is unescaped.
const maxEscapes = 4

// letters are the characters beyond ASCII that all readers take as they are: letters of Latin, Greek,
// Cyrillic, Hebrew, Arabic, Japanese, Chinese and Korean that no normalization (NFC, NFKC) changes. No reader drops them.
var letters = &unicode.RangeTable{LatinOffset: 3, R16: []unicode.Range16{
	{0x00c0, 0x00d6, 1}, {0x00d8, 0x00f6, 1}, {0x00f8, 0x0131, 1}, {0x0134, 0x013e, 1}, {0x0141, 0x0148, 1}, {0x014a, 0x017e, 1},
	{0x0180, 0x01c3, 1}, {0x01cd, 0x01f0, 1}, {0x01f4, 0x024f, 1}, {0x0386, 0x0386, 1}, {0x0388, 0x038a, 1}, {0x038c, 0x038c, 1},
	{0x038e, 0x03a1, 1}, {0x03a3, 0x03ce, 1}, {0x0400, 0x0481, 1}, {0x048a, 0x052f, 1}, {0x05d0, 0x05ea, 1}, {0x0620, 0x064a, 1},
	{0x3041, 0x3096, 1}, {0x30a1, 0x30fa, 1}, {0x30fc, 0x30fe, 1}, {0x3400, 0x4dbf, 1}, {0x4e00, 0x9fff, 1}, {0xac00, 0xd7a3, 1},
}}

// defaultPorts are the schemes that the WHATWG URL standard reads in a special way, with their ports.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

var (
	expression = regexp.MustCompile(`\{[^{}]*\}`) // of a template
	params     = regexp.MustCompile(`;[^/?#]*`)   // of a segment; some readers drop them
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
		all = append(all, path, strings.TrimRight(path, "/"), strings.TrimRight(params.ReplaceAllString(path, ""), "/"))
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
	changed := func(r rune) bool { return r < ' ' || r == '\\' || r >= 0x7f && !unicode.Is(letters, r) }
	if !utf8.ValidString(uri) || strings.ContainsFunc(uri, changed) {
		return false
	}
	for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune("/?#", r) }) {
		// Some drop what follows a semicolon, and dots and blanks at the end.
		if name := params.ReplaceAllString(segment, ""); name == "" || strings.TrimLeft(strings.TrimRight(name, " ."), " ") != name {
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
	address, err := netip.ParseAddr(name)
	isIP := err == nil
	number, _ := strconv.Atoi(u.Port())
	switch {
	case (scheme == "file") != (u.Host == ""): // a host of a file is read, dropped or refused
		return false
	case strings.HasSuffix(name, ".") || strings.Contains(name, "%") || strings.HasSuffix(u.Host, ":") || u.Port() != "" && (u.Port() == port || u.Port() != strconv.Itoa(number)):
		return false
	case isIP && address.Unmap().String() != name || strings.HasPrefix(u.Host, "[") != (isIP && address.Is6()):
		return false
	case !isIP && name != "" && slices.ContainsFunc(strings.Split(name, ".")[strings.Count(name, "."):], isNumber): // 127.1 and 0x7f.1 are addresses for some
		return false
	}
	path, _, _ := strings.Cut(rest[2:], "#")
	path, _, _ = strings.Cut(path, "?")
	path = path[len(u.Host):]
	return path != "" && !strings.Contains(path, "//")
}

// isNumber reports whether readers take a label as a number.
func isNumber(label string) bool {
	return label != "" && strings.Trim(label, "0123456789") == "" || strings.HasPrefix(label, "0x")
}
