package config

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"time"

	"github.com/tailscale/hujson"
)

// literal returns a value as a literal of one kind: '"' for a string, '0' for a
// number, 't' for a boolean, 'n' for null.
func literal(v *hujson.Value, kind hujson.Kind) (hujson.Literal, bool) {
	lit, ok := v.Value.(hujson.Literal)
	if !ok {
		return nil, false
	}
	k := lit.Kind()
	return lit, k == kind || kind == 't' && k == 'f'
}

// failType reports a value of the wrong type: what is expected, and how to write it.
func (e *entry) failType(v *hujson.Value, expected, example string) {
	e.fail(v, "%q must be %s; write %s", e.key, expected, example)
}

// driveEscape finds a Windows path whose backslashes were read as escapes:
// "C:\temp" is C:, a tab and emp.
var driveEscape = regexp.MustCompile(`^[A-Za-z]:[\x08\t\n\f\r]`)

// backslashAdvice says how a path with backslashes is written in JSON.
const backslashAdvice = `write each backslash twice, as in "C:\\Users\\me", or write "C:/Users/me"`

// readString reads a string as it is written, without replacing variables.
func (e *entry) readString(v *hujson.Value) (string, bool) {
	lit, ok := literal(v, '"')
	if !ok {
		e.failType(v, "a string", "it in double quotes")
		return "", false
	}
	text := lit.String()
	if driveEscape.MatchString(text) {
		e.fail(v, "%q is a path with a control character, because its backslashes are read as escapes; %s", e.key, backslashAdvice)
		return "", false
	}
	return text, true
}

// readText reads a string and replaces its variables.
func (e *entry) readText(v *hujson.Value, into *string) { e.readExpanded(v, e.p.expand, into) }

// readPath reads a path: ~ at its start is the home directory.
func (e *entry) readPath(v *hujson.Value, into *string) { e.readExpanded(v, e.p.expandPath, into) }

func (e *entry) readExpanded(v *hujson.Value, expand func(string) (string, error), into *string) {
	text, ok := e.readString(v)
	if !ok {
		return
	}
	text, err := expand(text)
	if err != nil {
		e.fail(v, "in %q: %v", e.key, err)
		return
	}
	*into = text
}

// readFilePath reads the path of a file. A relative one begins at the workspace.
func (e *entry) readFilePath(v *hujson.Value) string {
	var path string
	if e.readPath(v, &path); path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(e.p.text.workspace, path)
	}
	return path
}

// readList reads a list of strings.
func (e *entry) readList(v *hujson.Value) []string {
	list, ok := v.Value.(*hujson.Array)
	if !ok {
		e.failType(v, "a list of strings", `["…", "…"]`)
		return nil
	}
	out := make([]string, len(list.Elements))
	for i := range list.Elements {
		e.within(fmt.Sprintf("[%d]", i), func() { e.readText(&list.Elements[i], &out[i]) })
	}
	return out
}

// readMap reads an object of strings. Numbers and booleans are taken as written,
// because "PORT": 8080 is common.
func (e *entry) readMap(v *hujson.Value) map[string]string {
	return readMapOf(e, v, "an object of strings", `{"NAME": "value"}`, func(m *hujson.ObjectMember) (value string) {
		if lit, ok := m.Value.Value.(hujson.Literal); ok && lit.Kind() != '"' && lit.Kind() != 'n' {
			return lit.String()
		}
		e.readText(&m.Value, &value)
		return value
	})
}

// readMapOf reads an object whose members read reads, each name once. If the value is no object, it returns nil, and the
// problem says what wanted and example say.
func readMapOf[T any](e *entry, v *hujson.Value, wanted, example string, read func(*hujson.ObjectMember) T) map[string]T {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		e.failType(v, wanted, example)
		return nil
	}
	out := make(map[string]T, len(object.Members))
	for name, m := range members(object) {
		e.within("."+name, func() {
			if _, twice := out[name]; twice {
				e.fail(&m.Name, "%q is set twice; remove one of them", e.key)
			}
			out[name] = read(m)
		})
	}
	return out
}

func (e *entry) readBool(v *hujson.Value, into *bool) {
	lit, ok := literal(v, 't')
	if !ok {
		e.failType(v, "true or false", "it without quotes")
		return
	}
	*into = lit.Bool()
}

// readCount reads a whole number that is not negative.
func (e *entry) readCount(v *hujson.Value, into *int) {
	lit, ok := literal(v, '0')
	n := 0.0
	if ok {
		n = lit.Float()
	}
	if !ok || n < 0 || n != math.Trunc(n) || n > math.MaxInt32 {
		e.failType(v, fmt.Sprintf("a whole number from 0 to %d", math.MaxInt32), "it without quotes")
		return
	}
	*into = int(n)
}

// readMiB reads a whole number of MiB, in bytes.
func (e *entry) readMiB(v *hujson.Value, into *int64) {
	n := 0
	e.readCount(v, &n)
	*into = int64(n) << 20
}

// readDuration reads a duration: "500ms", "1m30s", or a number of seconds.
func (e *entry) readDuration(v *hujson.Value, into *time.Duration) {
	if d, ok := durationOf(v); ok {
		*into = d
		return
	}
	e.failType(v, "a duration", `"500ms", "30s", "5m", or a number of seconds`)
}

func durationOf(v *hujson.Value) (d time.Duration, ok bool) {
	if lit, ok := literal(v, '0'); ok {
		s := lit.Float()
		return time.Duration(s * float64(time.Second)), math.Abs(s) <= (time.Duration(math.MaxInt64) / 2).Seconds()
	}
	lit, ok := literal(v, '"')
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(lit.String())
	return d, err == nil
}

// readObject reads an object by the table of its keys. example shows one.
func (e *entry) readObject(v *hujson.Value, example string, rows []row) {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		e.failType(v, "an object", example)
		return
	}
	e.readMembers(object, rows)
}
