package secret

import (
	"encoding/json"
	"regexp"
	"strings"
)

// maxDepth bounds values within values: JSON in a variable, a header in that.
const maxDepth = 4

// maxValue is the longest value in bytes that is searched for parts.
const maxValue = 1 << 20

// Env adds the secrets in an environment, given as NAME=value.
func (l *List) Env(entries []string) {
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		l.find(name, value, false, 0)
	}
}

// Args adds the secrets among the arguments of a program. The name of a value is
// the flag before it, or what stands before its "=".
func (l *List) Args(args []string) {
	flag := ""
	for _, arg := range args {
		name, value, isPair := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(arg, "-") && !isPair:
			if isSecretName(flag) && !strings.HasPrefix(arg, "--") { // a token may begin with "-"
				l.credential(arg)
			}
			l.find("", arg, false, 0) // as in -Htoken
			flag = arg
			continue
		case strings.HasPrefix(arg, "-"):
			l.find(name, value, isHeaderName(name), 0)
		default:
			l.find(flag, arg, isHeaderName(flag), 0)
		}
		flag = ""
	}
}

// Command returns the text of a command, with [Mask] for secrets among the
// arguments of one that is a whole command line.
func Command(text string) string {
	words := strings.Fields(text)
	if len(words) < 2 {
		return text
	}
	var l List
	l.Args(words[1:])
	return l.Replacer().Replace(text)
}

// Header adds the value of a header, unless a header of that name is never secret.
func (l *List) Header(name, value string) {
	if isOpenHeader(name) {
		return
	}
	l.credential(value)
	if strings.EqualFold(name, "Cookie") { // RFC 6265, 4.2.1
		for pair := range strings.SplitSeq(value, ";") {
			_, one, _ := strings.Cut(pair, "=")
			l.credential(one)
		}
	}
	l.find("", value, false, 1)
}

// find adds what is secret in a value of that name. header says that it holds
// headers.
func (l *List) find(name, value string, header bool, depth int) {
	value = strings.TrimSpace(value)
	if len(value) < MinLength {
		return
	}
	if isSecretName(name) && !namesFile(name, value) && !counts(name, value) || looksSecret(value) {
		l.credential(value)
	}
	if depth >= maxDepth || len(value) > maxValue {
		return
	}
	header = header || isHeaderName(name)
	if value[0] == '{' || value[0] == '[' {
		var decoded any
		if decodeJSON(value, &decoded) {
			l.members(name, decoded, header, depth+1)
			return
		}
	}
	l.addURLs(value)
	l.login(name, value)
	l.pairs(value, header)
	for _, found := range schemes.FindAllStringSubmatch(value, -1) {
		l.credential(found[0])
	}
	for field := range strings.FieldsFuncSeq(value, endsField) {
		if looksSecret(field) && !strings.Contains(value, "sha256:"+field) {
			l.Add(field)
		}
	}
}

// endsField reports what a token never holds and a path may.
func endsField(r rune) bool { return strings.ContainsRune(" \t\r\n;,=&?:@'\"()[]{}<>", r) }

func decodeJSON(text string, value any) bool {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(value) == nil
}

func (l *List) members(name string, decoded any, header bool, depth int) {
	switch decoded := decoded.(type) {
	case json.Number:
		l.find(name, decoded.String(), header, depth)
	case string:
		if header {
			l.Header(name, decoded)
		}
		l.find(name, decoded, header, depth)
	case []any:
		for _, item := range decoded {
			l.members(name, item, header, depth)
		}
	case map[string]any:
		for key, item := range decoded {
			l.members(key, item, header || isHeaderName(key), depth)
		}
	}
}

var (
	// longPairs are "name=value; name=value" and lines of "name: value", where
	// values hold spaces.
	longPairs = regexp.MustCompile(`([A-Za-z_][\w .-]*?)\s*[:=]\s*([^;&\n]+)`)
	// shortPairs are the same where a value ends at a space or a comma, or is
	// quoted: what a shell, a driver of databases and Python write.
	shortPairs = regexp.MustCompile(`([A-Za-z_][\w.-]*)["']?\s*[:=]\s*(?:"([^"]*)"|'([^']*)'|([^\s;&,"']+))`)
	// schemes are credentials of HTTP wherever they stand.
	schemes = regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+[^\s"',;]+`)
	// logins are user:password@host, without a scheme before it.
	logins = regexp.MustCompile(`^[\w.-]+:([^@/\s]+)@(?:tcp|udp|unix)?[\w(.\[-]`)
)

// pairs adds the values of secret names in a text.
func (l *List) pairs(text string, header bool) {
	add := func(name, value string) {
		switch {
		case header && (name == "" || !isOpenHeader(name)):
			l.Header(name, unquote(strings.TrimSpace(value)))
		case isSecretName(name) && !namesFile(name, value) && !counts(name, value):
			l.credential(value)
		}
	}
	for _, found := range longPairs.FindAllStringSubmatch(text, -1) {
		add(found[1], found[2])
	}
	for _, found := range shortPairs.FindAllStringSubmatch(text, -1) {
		add(found[1], found[2]+found[3]+found[4])
	}
}

// login adds the password of user:password@host, as some drivers of databases
// want it, and of a flag like --user user:password. Package managers write
// npm:name@version.
func (l *List) login(name, value string) {
	switch name {
	case "-u", "--user", "--userpwd", "--login", "--proxy-user":
		_, password, _ := strings.Cut(value, ":")
		l.Add(password)
	}
	if strings.Contains(value, "://") || strings.HasPrefix(value, "npm:") || strings.HasPrefix(value, "jsr:") {
		return
	}
	if found := logins.FindStringSubmatch(value); found != nil {
		l.Add(found[1])
	}
}
