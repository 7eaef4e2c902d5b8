package hosts

import (
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
)

// LiteralSecret is a part of an entry that is likely a secret and is written out.
type LiteralSecret struct {
	// Place is where it is, as in "env.TOKEN".
	Place string
	// Offset is where the value begins in the text of the file.
	Offset int
	// Variable is a name for a variable in its place.
	Variable string
}

// LiteralSecrets returns the likely secrets of an entry, in the order of the text. References to
// variables, files and the keyring are none, but their defaults may be.
func LiteralSecrets(server string, entry *hujson.Value) (found []LiteralSecret) {
	plain, ok := decode(entry).(object)
	if !ok {
		return nil
	}
	found = secretsOf(server, plain)
	object, _ := entry.Value.(*hujson.Object)
	for i := range found {
		found[i].Offset = entry.StartOffset
		if at := valueAt(object, found[i].Place); at != nil {
			found[i].Offset = at.StartOffset
		}
	}
	return append(found, secretDefaults("", entry)...)
}

// LikelySecrets returns the likely secrets in the command, the arguments and the address of an entry that has no file yet.
func LikelySecrets(server string, entry configfile.Object) []LiteralSecret {
	var plain object
	for _, m := range entry {
		switch words, _ := m.Value.([]string); m.Key {
		case "args":
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
	return secretsOf(server, plain)
}

// secretsOf returns the likely secrets of an entry, without their offsets.
func secretsOf(server string, plain object) (found []LiteralSecret) {
	v := variables{lookup: func(string) (string, bool) { return "", false }}
	v.protect(server, "", plain)
	for _, one := range v.all {
		for _, place := range one.For {
			place, _, _ = strings.Cut(place, " of "+server+" (")
			found = append(found, LiteralSecret{Place: place, Variable: one.Name})
		}
	}
	return found
}

// valueAt returns the value at a place, as in "env.TOKEN" or "args[1]", or nil.
func valueAt(o *hujson.Object, place string) *hujson.Value {
	if v := member(o, place); v != nil {
		return v
	}
	if key, rest, indexed := strings.Cut(place, "["); indexed {
		var i int
		if _, err := fmt.Sscanf(rest, "%d]", &i); err != nil {
			return nil
		}
		if v := member(o, key); v != nil {
			if list, ok := v.Value.(*hujson.Array); ok && i >= 0 && i < len(list.Elements) {
				return &list.Elements[i]
			}
		}
		return nil
	}
	key, rest, nested := strings.Cut(place, ".")
	if !nested {
		return nil
	}
	if v := member(o, key); v != nil {
		inner, _ := v.Value.(*hujson.Object)
		if inner != nil {
			return valueAt(inner, rest)
		}
	}
	return nil
}

// secretDefaults returns the references whose default is a secret, as in ${TOKEN:-abc…}.
func secretDefaults(place string, v *hujson.Value) (found []LiteralSecret) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		for i := range value.Members {
			name, _ := value.Members[i].Name.Value.(hujson.Literal)
			found = append(found, secretDefaults(strings.TrimPrefix(place+"."+name.String(), "."), &value.Members[i].Value)...)
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
				found = append(found, LiteralSecret{Place: place, Offset: v.StartOffset, Variable: variableNameOf(name)})
			}
		}
	}
	return found
}
