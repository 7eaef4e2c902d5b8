package transport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// secretLength is the shortest value that is worth hiding in a text: a shorter
// one would hide half of the text instead.
const secretLength = 6

// veil hides secrets in what servers say, for they like to repeat what they
// were given. nil hides nothing.
type veil func(text string) string

func (v veil) text(text string) string {
	if v == nil {
		return text
	}
	return v(text)
}

// error hides secrets in an error. One that holds none stays what it is.
func (v veil) error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if hidden := v.text(text); hidden != text {
		return errors.New(hidden)
	}
	return err
}

// json hides secrets in a JSON value, however its strings are escaped. A value
// that holds none stays as it is, byte for byte.
func (v veil) json(raw json.RawMessage) json.RawMessage {
	if v == nil {
		return raw
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) == nil {
		if hidden, changed := v.value(value); changed {
			raw, _ = json.Marshal(hidden) // it was JSON a moment ago
		}
	}
	if hidden := v(string(raw)); hidden != string(raw) {
		if raw = json.RawMessage(hidden); !json.Valid(raw) { // a number, as it were
			raw = json.RawMessage(`"***"`)
		}
	}
	return raw
}

func (v veil) value(value any) (hidden any, changed bool) {
	switch value := value.(type) {
	case string:
		s := v(value)
		return s, s != value
	case []any:
		for i, item := range value {
			one, yes := v.value(item)
			value[i], changed = one, changed || yes
		}
		return value, changed
	case map[string]any:
		object := make(map[string]any, len(value))
		for name, item := range value {
			one, yes := v.value(item)
			safe := v(name)
			object[safe], changed = one, changed || yes || safe != name
		}
		return object, changed
	}
	return value, false
}

// secretList collects what must not be shown, in the forms in which it travels.
type secretList []string

func (l *secretList) add(values ...string) {
	for _, s := range values {
		if len(s) < secretLength {
			continue
		}
		*l = append(*l, s)
		// What is no JSON on the whole may still hold a piece of it.
		if quoted, err := json.Marshal(s); err == nil {
			inner := string(quoted[1 : len(quoted)-1])
			*l = append(*l, inner, strings.ReplaceAll(inner, "/", `\/`))
		}
	}
}

func (l *secretList) replacer() *strings.Replacer {
	all := slices.Clone(*l)
	slices.Sort(all)
	all = slices.Compact(all)
	// The longest first: what is left of a secret is one too.
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, s, "***")
	}
	return strings.NewReplacer(pairs...)
}
