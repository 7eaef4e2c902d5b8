// Package difference says how two specifications of one server differ, in the keys of a configuration file.
package difference

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

const (
	// maxDifferences is how many differences of one server are named. Further ones are counted.
	maxDifferences = 12
	// maxValue is how much of a value is shown, in characters.
	maxValue = 40
)

// Of says how two specs of one server differ, in the keys of the file, as in "args[1] big500 → big400". A value that
// is a secret, or may hold one, is not shown: its key has changed.
func Of(before, after mcpvisor.ServerSpec) (found []string) {
	masks, secrets := control.MasksOf(before, after), slices.Concat(before.Secrets, after.Secrets)
	show := func(text string) string {
		text = masks.Text(after.Name, text)
		for _, s := range secrets {
			if s != "" {
				text = strings.ReplaceAll(text, s, secret.Mask) // short ones, too
			}
		}
		return table.OneLine(text, maxValue)
	}
	a, b := settingsIn(before, show), settingsIn(after, show)
	for _, key := range b.keys {
		x, had := a.of[key]
		switch y := b.of[key]; {
		case !had && (y.shown == "" || strings.Contains(y.shown, secret.Mask)):
			found = append(found, key+" added")
		case !had:
			found = append(found, key+" "+y.shown+" added")
		case x.value == y.value:
		case x.shown == y.shown || x.shown == "" || y.shown == "" || strings.Contains(x.shown+y.shown, secret.Mask):
			found = append(found, key+" changed")
		default:
			found = append(found, key+" "+x.shown+" → "+y.shown)
		}
	}
	for _, key := range a.keys {
		if _, has := b.of[key]; !has {
			found = append(found, key+" removed")
		}
	}
	switch x, y := authOf(before), authOf(after); {
	case x == nil && y != nil:
		found = append(found, "auth added")
	case x != nil && y == nil:
		found = append(found, "auth removed")
	case x != nil && !x.Equal(y):
		found = append(found, "auth changed")
	}
	if len(found) == 0 && !before.Equal(after) {
		return []string{"the way it is reached changed"}
	}
	if more := len(found) - maxDifferences; more > 0 {
		found = append(found[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return found
}

func authOf(s mcpvisor.ServerSpec) mcpvisor.Auth {
	if s.HTTP == nil {
		return nil
	}
	return s.HTTP.Auth
}

// fieldKeys has the key of the file that sets a field of a spec, by the path of the field.
var fieldKeys = sync.OnceValue(func() map[string]string {
	keys := map[string]string{"ToolSettings": "tools", "Transport.Target": "url"}
	for _, k := range configkeys.All() {
		if _, known := keys[k.Field]; !known { // the first key of a field is its own
			keys[k.Field] = k.Name
		}
	}
	return keys
})

// unexplained are fields of a spec that no key sets, or that are compared in another way.
var unexplained = []string{"Name", "Origin", "StartSupervised", "Secrets", "InMemory", "HTTP.HeaderFunc", "HTTP.Client", "HTTP.Auth", "Transport.New", "Transport.Kind"}

// setting is the value of a key. shown is empty if it is not shown, as it may be a secret or says nothing.
type setting struct{ value, shown string }

// entrySettings are what a spec sets, by the keys of the file.
type entrySettings struct {
	keys []string // in the order of the fields
	of   map[string]setting
}

// settingsIn returns what a spec sets that is not the default. show returns a text without secrets.
func settingsIn(spec mcpvisor.ServerSpec, show func(string) string) entrySettings {
	s := entrySettings{of: map[string]setting{}}
	var fields func(path string, v, byDefault reflect.Value)
	set := func(key, value, shown string) {
		if _, twice := s.of[key]; !twice {
			s.keys = append(s.keys, key)
		}
		s.of[key] = setting{value, shown}
	}
	fields = func(path string, v, byDefault reflect.Value) {
		for i := range v.NumField() {
			field := strings.TrimPrefix(path+"."+v.Type().Field(i).Name, ".")
			key, f, usual := fieldKeys()[field], v.Field(i), byDefault.Field(i)
			if key == "" {
				key = strings.ToLower(field)
			}
			switch {
			case slices.Contains(unexplained, field) || f.IsZero():
			case f.Kind() == reflect.Struct:
				fields(field, f, usual)
			case f.Kind() == reflect.Pointer:
				fields(field, f.Elem(), reflect.Zero(f.Type().Elem()))
			case f.Kind() == reflect.Map:
				for _, name := range slices.SortedFunc(slices.Values(f.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
					set(key+"."+show(name.String()), fmt.Sprint(f.MapIndex(name)), "")
				}
			case field == "Stdio.Args":
				for i, arg := range spec.Stdio.Args {
					shown := ""
					if !holdsSecret(spec.Stdio.Args, i) {
						shown = show(arg)
					}
					set(fmt.Sprintf("%s[%d]", key, i), arg, shown)
				}
			case f.Kind() == reflect.Slice:
				for i := range f.Len() {
					set(key+" "+show(f.Index(i).String()), "", "")
				}
			case !f.Equal(usual):
				set(key, fmt.Sprint(f), show(valueText(field, f)))
			}
		}
	}
	fields("", reflect.ValueOf(spec), reflect.ValueOf(mcpvisor.ServerSpec{}.WithDefaults()))
	return s
}

// valueText is a value as the file has it; an address without what may be secret.
func valueText(field string, v reflect.Value) string {
	text := fmt.Sprint(v)
	if took, isDuration := v.Interface().(time.Duration); isDuration {
		return strings.Replace(strings.Replace(took.String(), "m0s", "m", 1), "h0m", "h", 1)
	}
	if strings.HasSuffix(field, "URL") {
		u, err := url.Parse(text)
		if err != nil {
			return ""
		}
		return secret.RedactURL(u)
	}
	return text
}

// holdsSecret reports whether an argument is a secret by its flag, however short its value is.
func holdsSecret(args []string, i int) bool {
	const long = "value-value" // would be a secret after such a flag
	words := []string{long}
	if name, _, isPair := strings.Cut(args[i], "="); isPair {
		words = []string{name + "=" + long}
	} else if i > 0 {
		words = []string{args[i-1], long}
	}
	var found secret.List
	found.AddArgs(words)
	return !found.Empty()
}
