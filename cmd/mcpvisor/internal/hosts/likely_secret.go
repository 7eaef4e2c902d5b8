package hosts

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
)

// What an import writes is often shared, so it takes more for a secret than package secret,
// which masks what users read. A false alarm costs the user one variable to set; a secret that
// was missed is published.

// LikelySecret is a part of an entry that is likely a secret and is written out.
type LikelySecret struct {
	// Place is where it is, as in "args[1]" or "env.TOKEN".
	Place string
	// Offset is where the value begins in the text of the file, if there is one.
	Offset int
	// Variable is a name for a variable in its place.
	Variable string
}

// LikelySecrets returns the likely secrets of an entry.
func LikelySecrets(server string, entry configfile.Object) (found []LikelySecret) {
	v := variables{lookup: func(string) (string, bool) { return "", false }}
	v.protect(server, "", entry)
	for _, one := range v.all {
		for _, place := range one.For {
			place, _, _ = strings.Cut(place, " of "+server+" (")
			found = append(found, LikelySecret{Place: place, Variable: one.Name})
		}
	}
	return found
}

// LiteralSecrets returns the likely secrets of all of an entry, in the order of the text. References to
// variables, files and the keyring are none, but their defaults may be.
func LiteralSecrets(server string, entry *hujson.Value) []LikelySecret {
	plain, ok := decode(entry).(object)
	if !ok {
		return nil
	}
	found := LikelySecrets(server, plain)
	for i := range found {
		found[i].Offset = entry.StartOffset
		if at := valueAt(entry, found[i].Place); at != nil {
			found[i].Offset = at.StartOffset
		}
	}
	return append(found, secretDefaults("", entry)...)
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

// valueAt returns the value at a place, as in "env.TOKEN" or "args[1]", or nil.
func valueAt(in *hujson.Value, place string) *hujson.Value {
	if v := member(in, place); v != nil {
		return v
	}
	if key, rest, indexed := strings.Cut(place, "["); indexed {
		var i int
		if _, err := fmt.Sscanf(rest, "%d]", &i); err != nil {
			return nil
		}
		if v := member(in, key); v != nil {
			if list, ok := v.Value.(*hujson.Array); ok && i >= 0 && i < len(list.Elements) {
				return &list.Elements[i]
			}
		}
		return nil
	}
	if key, rest, nested := strings.Cut(place, "."); nested {
		return valueAt(member(in, key), rest)
	}
	return nil
}

// secretDefaults returns the references whose default is a secret, as in ${TOKEN:-abc…}.
func secretDefaults(place string, v *hujson.Value) (found []LikelySecret) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		for i := range value.Members {
			name := configfile.NameOf(&value.Members[i])
			found = append(found, secretDefaults(strings.TrimPrefix(place+"."+name, "."), &value.Members[i].Value)...)
		}
	case *hujson.Array:
		for i := range value.Elements {
			found = append(found, secretDefaults(fmt.Sprintf("%s[%d]", place, i), &value.Elements[i])...)
		}
	case hujson.Literal:
		if value.Kind() != '"' {
			return nil
		}
		for _, ref := range reference.FindAllString(value.String(), -1) {
			name, def, hasDefault := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(ref, "${"), "env:"), "}"), ":-")
			if hasDefault && isSecret(name, def) {
				found = append(found, LikelySecret{Place: place, Offset: v.StartOffset, Variable: variableNameOf(name)})
			}
		}
	}
	return found
}
