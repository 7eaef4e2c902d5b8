package hosts

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/secret"
)

// Variable is an environment variable that stands for a secret which a host's file holds, or
// one that a host's file refers to. The value itself is shown nowhere.
type Variable struct {
	Name string `json:"name"`
	// For are the places that the variable was made for, as in "env.TOKEN of github", or the
	// servers that refer to it. They say which part of the value it is, if it is not the whole
	// one.
	For []string `json:"for"`
	// Set says that the variable is set in this process, and Differs that it is set to
	// another value than the file has.
	Set     bool `json:"set"`
	Differs bool `json:"differs,omitempty"`

	value string
}

// variables collects the variables of an import. One value has one variable for all entries
// that name it alike; a name never stands for two values.
type variables struct {
	all    []*Variable
	lookup func(string) (string, bool)
}

// reference matches a variable in a value. Values that hold nothing else are no secrets.
var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// legalVariable matches the name of an environment variable.
var legalVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownVariables are replaced by package config itself, and are not of the environment.
var ownVariables = []string{"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator"}

// bareVariable matches $VAR of Gemini CLI.
var bareVariable = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)

// scheme matches the part of a header before its token.
var scheme = regexp.MustCompile(`(?i)^(bearer|basic|token|apikey|api-key)[ ]+`)

// protector replaces the secrets of one entry.
type protector struct {
	*variables
	server, place string
}

// protect returns a copy of an entry in which variables stand for its secrets.
func (v *variables) protect(server, place string, entry object) object {
	p := &protector{variables: v, server: server, place: place}
	command, _ := entry.Get("command").(string)
	var out object
	for _, m := range entry {
		switch value := m.Value.(type) {
		case object:
			switch m.Key {
			case "env":
				m.Value = p.protectMap(m.Key, value, func(name string) string { return name })
			case "headers":
				m.Value = p.protectMap(m.Key, value, p.headerVariable)
			case "auth", "oauth":
				m.Value = p.protectAuth(m.Key, value)
			}
		case []string: // of an entry that was made, not read
			args := make([]any, len(value))
			for i := range value {
				args[i] = value[i]
			}
			m.Value = p.protectArgs(command, args)
		case []any:
			if m.Key == "args" {
				m.Value = p.protectArgs(command, value)
			}
		case string:
			switch m.Key {
			case "url", "serverUrl", "httpUrl":
				m.Value = p.protectURL(m.Key, value)
			case "command":
				m.Value = p.substitute(m.Key, value, secret.RedactCommand(value), p.named("SECRET"))
			}
		}
		out = append(out, m)
	}
	return out
}

func (p *protector) named(suffix string) string { return variableName(p.server + "_" + suffix) }

func (p *protector) headerVariable(header string) string {
	if strings.EqualFold(header, "Authorization") {
		header = "TOKEN"
	}
	return p.named(header)
}

// variableName makes a legal name of a variable in capitals.
func variableName(text string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, text)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

func (p *protector) protectMap(key string, values object, name func(string) string) object {
	out := object{}
	for _, m := range values {
		text, ok := m.Value.(string)
		if n, isNumber := m.Value.(json.Number); isNumber { // a number is taken as written
			text, ok = n.String(), true
		}
		if ok && isSecret(m.Key, text) {
			kept := scheme.FindString(text)
			m.Value = kept + p.variable(key+"."+m.Key, name(m.Key), kept, text[len(kept):], "")
		}
		out = append(out, m)
	}
	return out
}

// switches are short values that are no secrets under any name.
var switches = []string{"true", "false", "yes", "no", "on", "off", "null", "none", "auto"}

// isSecret reports whether a named value is a secret, or holds one.
func isSecret(name, value string) bool {
	rest := reference.ReplaceAllString(value, "")
	if strings.TrimSpace(scheme.ReplaceAllString(rest+" ", "")) == "" {
		return false
	}
	if len(rest) < secret.MinLength { // too short to be masked in other texts, but a secret anyway
		if slices.Contains(switches, strings.ToLower(rest)) {
			return false
		}
		rest = strings.Repeat(rest, (secret.MinLength+len(rest)-1)/len(rest))
	} else if rest != value { // a part of it is a variable already, so the name says little
		name = "value"
	}
	if isLikelySecret(name, rest) {
		return true
	}
	var found secret.List
	found.AddEnv([]string{strings.ReplaceAll(name, "-", "_") + "=" + rest})
	return !found.Empty()
}

func (p *protector) protectAuth(key string, auth object) object {
	out := object{}
	for _, m := range auth {
		switch text, isText := m.Value.(string); {
		case isText && strings.HasSuffix(variableName(strings.ReplaceAll(m.Key, "_", "")), "CLIENTSECRET"):
			if reference.ReplaceAllString(text, "") != "" {
				m.Value = p.variable(key+"."+m.Key, p.named("CLIENT_SECRET"), "", text, "")
			}
		default:
			if inner, ok := m.Value.(object); ok {
				m.Value = p.protectAuth(key+"."+m.Key, inner)
			}
		}
		out = append(out, m)
	}
	return out
}

// protectArgs replaces the secrets among the arguments of a program.
func (p *protector) protectArgs(command string, args []any) []any {
	plain := make([]string, len(args))
	for i, arg := range args {
		text, _ := arg.(string)
		plain[i] = reference.ReplaceAllString(text, "")
	}
	var found secret.List
	found.AddArgs(plain)
	mask := found.Replacer()
	out := slices.Clone(args)
	for i, arg := range args {
		text, ok := arg.(string)
		if !ok {
			continue
		}
		name, before, value := "SECRET", "", ""
		if flag, assigned, ok := strings.Cut(text, "="); ok && strings.HasPrefix(flag, "-") {
			name, before, value = strings.TrimLeft(flag, "-"), flag+"=", assigned
		} else if i > 0 && strings.HasPrefix(plain[i-1], "-") && !strings.Contains(plain[i-1], "=") &&
			likelyArgument(command, "", plain[i-1]) == "" { // a secret is no name
			name, value = strings.TrimLeft(plain[i-1], "-"), text
		}
		masked, last := mask.Replace(text), ""
		if i > 0 {
			last = plain[i-1]
		}
		if likely := likelyArgument(command, last, plain[i]); masked != text {
			// what package secret finds is enough
		} else if likely != "" {
			masked = strings.Replace(text, likely, secret.Mask, 1)
		} else if !strings.HasPrefix(value, "-") && isSecret(name, value) { // a short one
			masked = before + secret.Mask
		}
		out[i] = p.substitute(fmt.Sprintf("args[%d]", i), text, masked, p.named(name))
	}
	return out
}

// protectURL replaces the secrets of an address: its user, tokens in its path, its query.
func (p *protector) protectURL(key, text string) string {
	u, err := url.Parse(reference.ReplaceAllString(text, ""))
	if err != nil {
		return text
	}
	var found secret.List
	found.AddEndpoint(u)
	if found.Empty() {
		return text
	}
	return p.substitute(key, text, found.Replacer().Replace(text), p.named("URL_SECRET"))
}

// substitute puts a variable where the masked text differs from the text.
func (p *protector) substitute(place, text, masked, name string) string {
	if masked == text {
		return text
	}
	before, rest, _ := strings.Cut(masked, secret.Mask)
	after := rest
	if i := strings.LastIndex(rest, secret.Mask); i >= 0 {
		after = rest[i+len(secret.Mask):]
	}
	if len(before)+len(after) >= len(text) || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
		before, after = "", ""
	}
	value := text[len(before) : len(text)-len(after)]
	if reference.ReplaceAllString(value, "") == "" {
		return text
	}
	return before + p.variable(place, name, before, value, after) + after
}

// variable returns the reference to a variable that stands for a value between two texts,
// which stay.
func (p *protector) variable(place, name, before, value, after string) string {
	place += " of " + p.server + " (" + p.place + ")"
	if before+after != "" {
		place += fmt.Sprintf(", the part after %q", before)
		if after != "" {
			place += fmt.Sprintf(" and before %q", after)
		}
	}
	candidate := variableNameOf(name)
	for n := 1; ; n++ {
		v := p.find(candidate)
		if v == nil {
			v = &Variable{Name: candidate, value: value}
			var present string
			if present, v.Set = p.lookup(candidate); v.Set {
				v.Differs = present != value
			}
			p.all = append(p.all, v)
		}
		if v.value == value {
			if !slices.Contains(v.For, place) {
				v.For = append(v.For, place)
			}
			return "${" + v.Name + "}"
		}
		candidate = p.named(name)
		if n > 1 {
			candidate = fmt.Sprintf("%s_%d", candidate, n)
		}
	}
}

// variableNameOf keeps a name that is legal, and makes one of another text.
func variableNameOf(name string) string {
	if legalVariable.MatchString(name) {
		return name
	}
	return variableName(name)
}

// addReferenced adds the variables that an entry refers to and that are not set. A secret that
// is found later gets another name than theirs: they may stand for another value.
func (v *variables) addReferenced(item *Item) {
	for _, name := range item.variables {
		if _, set := v.lookup(name); set {
			continue
		}
		known := v.find(name)
		if known == nil {
			known = &Variable{Name: name}
			v.all = append(v.all, known)
		}
		place := fmt.Sprintf("a reference of %s (%s)", item.Name, item.place())
		if known.value == "" && !slices.Contains(known.For, place) {
			known.For = append(known.For, place)
		}
	}
}

func (v *variables) find(name string) *Variable {
	for _, one := range v.all {
		if one.Name == name {
			return one
		}
	}
	return nil
}
