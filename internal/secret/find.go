package secret

import (
	"encoding/json"
	"regexp"
	"strings"
)

// maxDepth bounds nested values, for example a header in JSON in a variable.
const maxDepth = 4

// maxSearchedBytes is the longest value in bytes that is searched for parts.
const maxSearchedBytes = 1 << 20

// AddEnv adds the secrets in an environment, given as NAME=value.
func (l *List) AddEnv(entries []string) {
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		l.addFrom(name, value, false, 0)
	}
}

// AddArgs adds the secrets among the arguments of a program. The name of a value is
// the flag before it, or the text before its "=".
func (l *List) AddArgs(args []string) {
	flag := ""
	for _, arg := range args {
		name, value, isPair := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(arg, "-") && !isPair:
			if isSecretName(flag) && !strings.HasPrefix(arg, "--") { // a token may begin with "-"
				l.addCredential(arg)
			}
			l.addFrom("", arg, false, 0) // as in -Htoken
			flag = arg
			continue
		case strings.HasPrefix(arg, "-"):
			l.addFrom(name, value, isHeaderName(name), 0)
		default:
			l.addFrom(flag, arg, isHeaderName(flag), 0)
		}
		flag = ""
	}
}

// RedactCommand returns a command with [Mask] for its secrets. A command may be a whole
// command line; secrets are searched among its arguments.
func RedactCommand(text string) string {
	words := strings.Fields(text)
	if len(words) < 2 {
		return text
	}
	var l List
	l.AddArgs(words[1:])
	return l.Replacer().Replace(text)
}

// AddHeader adds the value of a header, unless headers of that name are never secret.
func (l *List) AddHeader(name, value string) {
	if isPublicHeader(name) {
		return
	}
	l.addCredential(value)
	if strings.EqualFold(name, "Cookie") { // RFC 6265, 4.2.1
		for pair := range strings.SplitSeq(value, ";") {
			_, one, _ := strings.Cut(pair, "=")
			l.addCredential(one)
		}
	}
	l.addFrom("", value, false, 1)
}

// addFrom adds the secrets in a value. name is the name of the value; empty: unknown.
// header means that the value holds headers.
func (l *List) addFrom(name, value string, header bool, depth int) {
	value = strings.TrimSpace(value)
	if len(value) < MinLength {
		return
	}
	if isSecretName(name) && !isFilePath(name, value) && !isTokenCount(name, value) || looksSecret(value) {
		l.addCredential(value)
	}
	if depth >= maxDepth || len(value) > maxSearchedBytes {
		return
	}
	header = header || isHeaderName(name)
	if value[0] == '{' || value[0] == '[' {
		var decoded any
		if decodeJSON(value, &decoded) {
			l.addFromJSON(name, decoded, header, depth+1)
			return
		}
	}
	l.addURLs(value)
	l.addPassword(name, value)
	l.addFromPairs(value, header)
	if strings.ContainsAny(value, " \t\r\n\f") { // what the expression needs; the test is much cheaper
		for _, found := range schemes.FindAllStringSubmatch(value, -1) {
			l.addCredential(found[0])
		}
	}
	for field := range strings.FieldsFuncSeq(value, isFieldEnd) {
		if looksSecret(field) && !strings.Contains(value, "sha256:"+field) {
			l.Add(field)
		}
	}
}

// isFieldEnd reports whether a character never occurs in a token, but may in a path.
func isFieldEnd(r rune) bool { return strings.ContainsRune(" \t\r\n;,=&?:@'\"()[]{}<>", r) }

// decodeJSON decodes the JSON value at the start of text. Numbers keep their digits.
func decodeJSON(text string, value any) bool {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(value) == nil
}

// addFromJSON adds the secrets in a decoded JSON value. name is the name of its member.
func (l *List) addFromJSON(name string, decoded any, header bool, depth int) {
	switch decoded := decoded.(type) {
	case json.Number:
		l.addFrom(name, decoded.String(), header, depth)
	case string:
		if header {
			l.AddHeader(name, decoded)
		}
		l.addFrom(name, decoded, header, depth)
	case []any:
		for _, item := range decoded {
			l.addFromJSON(name, item, header, depth)
		}
	case map[string]any:
		for key, item := range decoded {
			l.addFromJSON(key, item, header || isHeaderName(key), depth)
		}
	}
}

var (
	// longPairs match "name=value; name=value" and lines of "name: value", where values
	// may contain spaces.
	longPairs = regexp.MustCompile(`([A-Za-z_][\w .-]*?)\s*[:=]\s*([^;&\n]+)`)
	// shortPairs match the same where a value ends at a space or a comma, or is quoted,
	// as in shell commands, connection strings and Python.
	shortPairs = regexp.MustCompile(`([A-Za-z_][\w.-]*)["']?\s*[:=]\s*(?:"([^"]*)"|'([^']*)'|([^\s;&,"']+))`)
	// schemes match HTTP credentials anywhere in a text (RFC 6750, RFC 7617).
	schemes = regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+[^\s"',;]+`)
	// logins match user:password@host without a URL scheme.
	logins = regexp.MustCompile(`^[\w.-]+:([^@/\s]+)@(?:tcp|udp|unix)?[\w(.\[-]`)
)

// addFromPairs adds the values in a text whose names are those of secrets.
func (l *List) addFromPairs(text string, header bool) {
	add := func(name, value string) {
		switch {
		case header && (name == "" || !isPublicHeader(name)):
			l.AddHeader(name, unquote(strings.TrimSpace(value)))
		case isSecretName(name) && !isFilePath(name, value) && !isTokenCount(name, value):
			l.addCredential(value)
		}
	}
	if !strings.ContainsAny(text, ":=") {
		return
	}
	for _, found := range longPairs.FindAllStringSubmatch(text, -1) {
		add(found[1], found[2])
	}
	for _, found := range shortPairs.FindAllStringSubmatch(text, -1) {
		add(found[1], found[2]+found[3]+found[4])
	}
}

// addPassword adds the password of user:password@host, the form of some database
// drivers, and of a flag like --user user:password. npm:name@version is a package and
// holds no password.
func (l *List) addPassword(name, value string) {
	switch name {
	case "-u", "--user", "--userpwd", "--login", "--proxy-user":
		_, password, _ := strings.Cut(value, ":")
		l.Add(password)
	}
	if !strings.Contains(value, "@") || strings.Contains(value, "://") || strings.HasPrefix(value, "npm:") || strings.HasPrefix(value, "jsr:") {
		return
	}
	if found := logins.FindStringSubmatch(value); found != nil {
		l.Add(found[1])
	}
}
