package hosts

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
)

// What an import writes is often shared, so it takes more for a secret than package secret,
// which masks what users read. A false alarm costs the user one variable to set; a secret that
// was missed is published.

// LikelySecret is a part of an entry that is likely a secret.
type LikelySecret struct {
	// Place is where it is, as in "args[1]".
	Place string
	// Variable is a name for a variable in its place.
	Variable string
}

// LikelySecrets returns the likely secrets in the command, the arguments and the address of
// an entry.
func LikelySecrets(server string, entry configfile.Object) (found []LikelySecret) {
	var plain object
	for _, m := range entry {
		switch m.Key {
		case "args":
			words, _ := m.Value.([]string)
			args := make([]any, len(words))
			for i := range words {
				args[i] = words[i]
			}
			m.Value = args
		case "command", "url":
		default:
			continue
		}
		plain = append(plain, m)
	}
	v := variables{lookup: func(string) (string, bool) { return "", false }}
	v.protect(server, "", plain)
	for _, one := range v.all {
		for _, place := range one.For {
			place, _, _ = strings.Cut(place, " of ")
			found = append(found, LikelySecret{Place: place, Variable: one.Name})
		}
	}
	return found
}

// likelyNames are the names of values that are likely secrets, beside those that package
// secret knows. Short words count only as a whole.
var likelyNames = regexp.MustCompile(`(?i)session|licen[cs]e|webhook|(^|[_.-])(basic|hook|login|seed|salt|dsn)([_.-]|$)`)

// webhook matches an address that is a secret by itself.
var webhook = regexp.MustCompile(`(?i)://([\w.-]+\.)?(web)?hooks?[.-]|/(incoming)?(web)?hooks?/`)

// plainValue matches what is no secret under any name: numbers, truths, paths.
var plainValue = regexp.MustCompile(`^([\d.:]*|(?i:true|false|yes|no|on|off|none)|[/~.].*|[A-Za-z]:[\\/].*)$`)

// minLikely is the shortest value in bytes that is taken for a secret by its name.
const minLikely = 6

// isLikelySecret reports whether a value is a secret by its name or by its form. The name
// may be empty.
func isLikelySecret(name, value string) bool {
	if webhook.MatchString(value) {
		return true
	}
	if strings.Contains(value, "://") { // its parts are looked at by package secret
		return false
	}
	return len(value) >= minLikely && likelyNames.MatchString(name) && !plainValue.MatchString(value) || isRandom(value) || isLogin(value)
}

// minRandom is the shortest text in bytes that is taken for a random one.
const minRandom = 16

// isRandom reports whether a text was generated: letters and digits alternate in it, or
// small and capital letters.
func isRandom(text string) bool {
	text = strings.TrimRight(text, "=")
	if len(text) < minRandom || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	changes, last := 0, rune(0)
	for i, r := range text {
		kind := 'x'
		switch {
		case unicode.IsDigit(r):
			kind = '0'
		case unicode.IsUpper(r):
			kind = 'A'
		case unicode.IsLower(r):
			kind = 'a'
		case r != '+' && r != '_' && r != '-':
			return false
		}
		if i > 0 && kind != last && kind != 'x' && last != 'x' { // a separator is between words, too
			changes++
		}
		last = kind
	}
	return 4*changes >= len(text)
}

// isLogin reports whether a text is user:password as in the Basic scheme (RFC 7617).
func isLogin(text string) bool {
	if len(text) < minRandom/2 {
		return false
	}
	login, err := base64.StdEncoding.DecodeString(text)
	user, password, pair := strings.Cut(string(login), ":")
	special := func(r rune) bool { return r < ' ' || r > '~' }
	return err == nil && pair && user != "" && password != "" && bytes.IndexFunc(login, special) < 0
}

// otherP are programs whose flag -p is a package, a port or a version.
var otherP = []string{"npx", "npm", "pnpm", "yarn", "bunx", "uv", "uvx", "docker", "podman", "node", "deno", "ssh"}

// attached matches a password behind -p in one word, but not a word such as -port.
var attached = regexp.MustCompile(`^-p([^=]*[^a-z=-][^=]*)$`)

// likelyArgument returns the part of an argument that is likely a secret; empty without one.
// before is the argument before it.
func likelyArgument(command, before, arg string) string {
	name, value, pair := strings.Cut(arg, "=")
	if !pair || !strings.HasPrefix(arg, "-") && !regexp.MustCompile(`^\w+$`).MatchString(name) || strings.Trim(value, "=") == "" {
		name, value = "", arg
		if strings.HasPrefix(before, "-") && !strings.Contains(before, "=") {
			name = before
		}
	}
	if isLikelySecret(name, value) {
		return value
	}
	program := strings.TrimSuffix(command[strings.LastIndexAny(command, `/\`)+1:], ".cmd")
	if slices.Contains(otherP, program) {
		return ""
	}
	if name == "-p" && len(value) >= minLikely && !plainValue.MatchString(value) && !strings.HasPrefix(value, "-") {
		return value
	}
	if found := attached.FindStringSubmatch(arg); found != nil && len(found[1]) >= minLikely && !plainValue.MatchString(found[1]) {
		return found[1]
	}
	return ""
}
