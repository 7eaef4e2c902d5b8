// Package secret finds secrets among the values that a server is given, and masks them
// in the text that the server sends back: errors, stderr and log messages.
//
// A [List] collects the secrets of an environment, of arguments, headers and URLs. It
// recognizes them by the name of the value ("API_TOKEN"), by the form of the value
// ("ghp_…") or by the place in a URL. Each secret is masked in every form in which text
// may hold it: as it is, escaped as in JSON, HTML and in a URL, in base64, line by line, and
// in parts.
package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
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

// Values returns the secrets in every form that is masked, sorted.
func (l *List) Values() []string {
	all := slices.Clone(l.values)
	slices.Sort(all)
	return slices.Compact(all)
}

// Replacer returns a replacer of every secret by [Mask]. The replacer is safe for
// concurrent use and does not change when the list does.
func (l *List) Replacer() *strings.Replacer {
	all := l.Values()
	// The longest first, so that no rest of a secret stays beside the mask.
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, s, Mask)
	}
	return strings.NewReplacer(pairs...)
}

// Add adds secrets in the forms in which text may hold them; see [formsOf]. Of a secret with
// several lines, such as a PEM key, each line is a secret, too: stderr is read line by line.
// Values shorter than [MinLength] are ignored.
func (l *List) Add(values ...string) {
	for _, s := range values {
		l.addForms(s)
		if strings.Contains(s, "-----BEGIN ") { // the line breaks of a key in a variable are often written as \n
			s = strings.ReplaceAll(s, `\n`, "\n")
		}
		if !strings.ContainsAny(s, "\r\n") {
			continue
		}
		for line := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\r' || r == '\n' }) {
			l.addForms(strings.TrimSpace(line))
		}
	}
}

// addForms adds every form of one secret, and the parts of each.
func (l *List) addForms(s string) {
	if len(s) < MinLength {
		return
	}
	forms := formsOf(s)
	slices.Sort(forms)
	for _, form := range slices.Compact(forms) {
		l.values = append(l.values, form)
		for part := form; len(part) > PartLength; part = part[PartLength:] {
			l.values = append(l.values, part[:PartLength])
		}
	}
}

// formsOf returns the forms in which text may hold a secret: as it is, as in a JSON string
// and as in HTML (text may contain a part of either), escaped as in a URL by several
// libraries, in base64, and as a number.
func formsOf(s string) []string {
	forms := append(append([]string{s}, inBase64(s)...), asNumber(s)...)
	if isUnescaped(s) {
		return forms
	}
	query := url.QueryEscape(s)
	component := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(query) // encodeURIComponent
	forms = append(forms, html.EscapeString(s))
	for _, escaped := range []string{query, url.PathEscape(s), component} {
		forms = append(forms, escaped, lowerEscapes(escaped))
	}
	for _, quoted := range []string{quoteJSON(s, true), quoteJSON(s, false), asciiJSON(quoteJSON(s, false))} {
		forms = append(forms, quoted, strings.ReplaceAll(quoted, "/", `\/`))
	}
	return forms
}

// minEncoded is the shortest part of a secret, in bytes, that is masked in the base64 of a
// longer text.
const minEncoded = 9

// inBase64 returns what the base64 of a secret, or of a text around it, consists of. Three
// bytes become four characters, so there are three ways in which the secret may lie.
func inBase64(s string) (forms []string) {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(s)))
		for at := range 3 {
			if whole := (len(s) - at) / 3 * 3; whole >= minEncoded {
				forms = append(forms, encoding.EncodeToString([]byte(s[at:at+whole])))
			}
		}
	}
	return forms
}

// asNumber returns what programs make of a secret of digits that they read as a number, such as 1.234567e+06 of 1234567, unless
// that is shorter than any secret.
func asNumber(s string) (forms []string) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.Trim(s, "0123456789.") != "" {
		return nil
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent) // it is a number
	forms = append(forms, strconv.FormatFloat(f, 'f', -1, 64))
	for _, format := range []string{"%se%d", "%se%+d", "%se%+03d", "%se%02d"} {
		form := fmt.Sprintf(format, mantissa, n)
		forms = append(forms, form, strings.ToUpper(form))
	}
	return slices.DeleteFunc(forms, func(form string) bool { return len(form) < MinLength })
}

// isUnescaped reports whether a secret has no character that JSON, HTML or a URL escapes.
func isUnescaped(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") == ""
}

// lowerEscapes returns the text of a URL with lower-case digits in its escapes.
func lowerEscapes(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// quoteJSON returns a text as it stands in a JSON string, without the quotes. Some libraries
// escape what is special in HTML.
func quoteJSON(s string, forHTML bool) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(forHTML)
	if err := encoder.Encode(s); err != nil { // a string always encodes
		return s
	}
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

// asciiJSON escapes all other characters of a JSON string, as Python does.
func asciiJSON(quoted string) string {
	var b strings.Builder
	for _, r := range quoted {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// addCredential adds a value that is a secret as a whole, and its parts that are secrets on
// their own: the token after an authentication scheme ("Bearer …"), and user and password of
// the Basic scheme (RFC 7617).
func (l *List) addCredential(value string) {
	value = unquote(strings.TrimSpace(value))
	if isHarmless(value) {
		return
	}
	l.Add(value)
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

// AddProcess adds the secrets in the variables and arguments of a process.
func (l *List) AddProcess(variables map[string]string, args []string) {
	env := make([]string, 0, len(variables))
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	l.AddEnv(env)
	l.AddArgs(args)
}

// AddRemote adds the secrets in the address and the headers of a server.
func (l *List) AddRemote(address string, headers map[string]string) {
	if u, err := url.Parse(address); err == nil {
		l.AddEndpoint(u)
	}
	for name, value := range headers {
		l.AddHeader(name, value)
	}
}
