package daemon

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

const (
	// maxDifferences is how many differences of one server are named. Further ones are counted.
	maxDifferences = 12
	// maxValue is how much of a value is shown, in characters.
	maxValue = 40
)

// explain says how two specs of one server differ, in the keys of the file, as in "args[1] big500 → big400". A value that
// is a secret, or may hold one, is not shown: its key has changed.
func explain(before, after mcpvisor.ServerSpec) []string {
	masks := control.MasksOf(before, after)
	d := differences{show: func(text string) string {
		shown := masks.Text(after.Name, text)
		for _, s := range slices.Concat(before.Secrets, after.Secrets) {
			if s != "" {
				shown = strings.ReplaceAll(shown, s, secret.Mask) // short ones, too
			}
		}
		return shown
	}}
	a, b := before.WithDefaults(), after.WithDefaults()
	d.fields("", reflect.ValueOf(before), reflect.ValueOf(after), reflect.ValueOf(a), reflect.ValueOf(b))
	if len(d.found) == 0 && !before.Equal(after) {
		d.found = []string{"the way it is reached changed"}
	}
	if more := len(d.found) - maxDifferences; more > 0 {
		d.found = append(d.found[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return d.found
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

// unexplained are fields of a spec that no key sets, and that say nothing beside others.
var unexplained = []string{"Name", "Origin", "StartSupervised", "Secrets", "InMemory", "HTTP.HeaderFunc", "HTTP.Client", "Transport.New", "Transport.Kind"}

type differences struct {
	show  func(text string) string // without secrets
	found []string
}

func (d *differences) add(format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf(format, args...))
}

// fields compares two structs. fullA and fullB are the same with defaults: a value that is the default is no difference.
func (d *differences) fields(path string, a, b, fullA, fullB reflect.Value) {
	for i := range a.NumField() {
		field := strings.TrimPrefix(path+"."+a.Type().Field(i).Name, ".")
		if !slices.Contains(unexplained, field) {
			d.value(field, a.Field(i), b.Field(i), fullA.Field(i), fullB.Field(i))
		}
	}
}

func (d *differences) value(field string, a, b, fullA, fullB reflect.Value) {
	key := fieldKeys()[field]
	if key == "" {
		key = strings.ToLower(field)
	}
	switch a.Kind() {
	case reflect.Struct:
		d.fields(field, a, b, fullA, fullB)
	case reflect.Pointer:
		if a, b = pointed(a), pointed(b); a.Kind() == reflect.Struct {
			d.fields(field, a, b, a, b)
		}
	case reflect.Interface: // HTTP.Auth
		x, _ := a.Interface().(mcpvisor.Auth)
		y, _ := b.Interface().(mcpvisor.Auth)
		switch {
		case x == nil && y == nil, x != nil && x.Equal(y):
		case x == nil:
			d.add("%s added", key)
		case y == nil:
			d.add("%s removed", key)
		default:
			d.add("%s changed", key)
		}
	case reflect.Map:
		d.maps(key, a, b)
	case reflect.Slice:
		d.lists(key, field, a, b)
	default:
		if !fullA.Equal(fullB) {
			d.one(key, d.text(field, a), d.text(field, b), a.IsZero(), b.IsZero())
		}
	}
}

// pointed returns what a pointer points to; the zero value for nil.
func pointed(p reflect.Value) reflect.Value {
	if p.IsNil() {
		return reflect.Zero(p.Type().Elem())
	}
	return p.Elem()
}

// one reports a value that differs.
func (d *differences) one(key, a, b string, added, removed bool) {
	switch {
	case removed:
		d.add("%s removed", key)
	case added && strings.Contains(b, secret.Mask):
		d.add("%s added", key)
	case added:
		d.add("%s %s added", key, b)
	case a == b || a == "" || b == "" || strings.Contains(a+b, secret.Mask):
		d.add("%s changed", key)
	default:
		d.add("%s %s → %s", key, a, b)
	}
}

// text shows a value as the file has it, in one line without secrets.
func (d *differences) text(field string, v reflect.Value) string {
	text := fmt.Sprint(v.Interface())
	if took, isDuration := v.Interface().(time.Duration); isDuration {
		text = strings.Replace(strings.Replace(took.String(), "m0s", "m", 1), "h0m", "h", 1)
	}
	if strings.HasSuffix(field, "URL") && text != "" {
		u, err := url.Parse(text)
		if err != nil {
			return secret.Mask
		}
		text = secret.RedactURL(u)
	}
	return table.OneLine(d.show(text), maxValue)
}

// maps compares the keys of two maps. Their values may be secrets.
func (d *differences) maps(key string, a, b reflect.Value) {
	names := map[string]bool{}
	for _, m := range []reflect.Value{a, b} {
		for _, name := range m.MapKeys() {
			names[name.String()] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, y := a.MapIndex(reflect.ValueOf(name)), b.MapIndex(reflect.ValueOf(name))
		shown := key + "." + table.OneLine(d.show(name), maxValue)
		switch {
		case !x.IsValid():
			d.add("%s added", shown)
		case !y.IsValid():
			d.add("%s removed", shown)
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			d.add("%s changed", shown)
		}
	}
}

// lists compares two lists: by place what is a command line, else what is in one of them only.
func (d *differences) lists(key, field string, a, b reflect.Value) {
	if field != "Stdio.Args" {
		for i := range a.Len() {
			if !contains(b, a.Index(i)) {
				d.add("%s %s removed", key, d.text(field, a.Index(i)))
			}
		}
		for i := range b.Len() {
			if !contains(a, b.Index(i)) {
				d.add("%s %s added", key, d.text(field, b.Index(i)))
			}
		}
		return
	}
	for i := range max(a.Len(), b.Len()) {
		place := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case i >= a.Len() && holdsSecret(b, i):
			d.add("%s added", place)
		case i >= a.Len():
			d.one(place, "", d.text(field, b.Index(i)), true, false)
		case i >= b.Len():
			d.add("%s removed", place)
		case !a.Index(i).Equal(b.Index(i)) && (holdsSecret(a, i) || holdsSecret(b, i)):
			d.add("%s changed", place)
		case !a.Index(i).Equal(b.Index(i)):
			d.one(place, d.text(field, a.Index(i)), d.text(field, b.Index(i)), false, false)
		}
	}
}

// holdsSecret reports whether an argument is a secret by its flag, however short its value is.
func holdsSecret(args reflect.Value, i int) bool {
	const long = "value-value" // would be a secret after such a flag
	words := []string{long}
	if name, _, isPair := strings.Cut(args.Index(i).String(), "="); isPair {
		words = []string{name + "=" + long}
	} else if i > 0 {
		words = []string{args.Index(i - 1).String(), long}
	}
	var found secret.List
	found.AddArgs(words)
	return !found.Empty()
}

func contains(list, v reflect.Value) bool {
	for i := range list.Len() {
		if list.Index(i).Equal(v) {
			return true
		}
	}
	return false
}

// countEnded counts the calls in flight of servers that a reload is about to end. ended adds to changes what became of them;
// it is to be called when the servers have changed.
func (r *reloader) countEnded(changes []control.Change) (ended func()) {
	type registration struct {
		server string
		gen    uint64
	}
	count := func() map[registration]int {
		n := map[registration]int{}
		for _, c := range r.client.CallsInFlight() {
			if c.Method == "tools/call" || c.Method == "resources/read" || c.Method == "prompts/get" {
				n[registration{c.Server, c.Gen}]++
			}
		}
		return n
	}
	seq, before := r.client.Stats().Calls, count()
	return func() {
		recent, _ := r.client.History().Calls(seq)
		left := count()
		for of, n := range before {
			i := slices.IndexFunc(changes, func(c control.Change) bool {
				return c.Server == of.server && (c.Action == control.ActionReplace || c.Action == control.ActionRemove)
			})
			if i < 0 {
				continue
			}
			cut := 0
			for _, c := range recent {
				if c.Server == of.server && c.Gen == of.gen && (c.Kind == mcpvisor.KindClosed || c.Kind == mcpvisor.KindEnded) {
					cut++
				}
			}
			changes[i].Cut += cut
			changes[i].Drained += max(n-cut-left[of], 0)
		}
	}
}

// maxExplanations is how many replacements are explained in events. Those before are forgotten.
const maxExplanations = 500

// explanations say how registrations differ from those that they have replaced. Safe for concurrent use.
type explanations struct {
	mu  sync.Mutex
	all []explanation // oldest first
}

type explanation struct {
	server string
	gen    uint64 // of the registration before
	text   string
}

// add keeps the differences of servers that are about to be replaced.
func (e *explanations) add(client *facade.Client, changes []control.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		if status, registered := client.ServerStatus(c.Server); registered && len(c.Differences) > 0 {
			e.all = append(e.all, explanation{c.Server, status.Gen, c.Text()})
		}
	}
	e.all = slices.Clone(e.all[max(len(e.all)-maxExplanations, 0):])
}

// of is an api.Program.Change.
func (e *explanations) of(server string, gen uint64) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range slices.Backward(e.all) {
		if one.server == server && one.gen < gen {
			return one.text
		}
	}
	return ""
}
