package config

import (
	"bufio"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// literal returns a value as a literal of the wanted kind: '"' for a string,
// '0' for a number, 't' for a boolean.
func literal(v *hujson.Value, kind hujson.Kind) (hujson.Literal, bool) {
	lit, ok := v.Value.(hujson.Literal)
	if !ok {
		return nil, false
	}
	k := lit.Kind()
	return lit, k == kind || kind == 't' && k == 'f'
}

// raw reads a string as it stands.
func (e *entry) raw(v *hujson.Value) (string, bool) {
	lit, ok := literal(v, '"')
	if !ok {
		e.fail(v, "a string is expected here; put it in double quotes")
		return "", false
	}
	text := lit.String()
	if driveEscape.MatchString(text) {
		e.fail(v, "this path holds a control character, because its backslashes are read as escapes; %s", backslashes)
		return "", false
	}
	return text, true
}

func (e *entry) text(v *hujson.Value, into *string) { e.expanded(v, e.r.expand, into) }
func (e *entry) path(v *hujson.Value, into *string) { e.expanded(v, e.r.expandPath, into) }

func (e *entry) expanded(v *hujson.Value, expand func(string) (string, error), into *string) {
	text, ok := e.raw(v)
	if !ok {
		return
	}
	text, err := expand(text)
	if err != nil {
		e.fail(v, "%v", err)
		return
	}
	*into = text
}

// texts reads a list of strings.
func (e *entry) texts(v *hujson.Value) []string {
	list, ok := v.Value.(*hujson.Array)
	if !ok {
		e.fail(v, "a list of strings is expected here; write [\"…\", \"…\"]")
		return nil
	}
	out := make([]string, len(list.Elements))
	for i := range list.Elements {
		e.text(&list.Elements[i], &out[i])
	}
	return out
}

// pairs reads an object of strings. Numbers and booleans are taken as they are
// written: people write "PORT": 8080.
func (e *entry) pairs(v *hujson.Value) map[string]string {
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		e.fail(v, "an object of strings is expected here; write {\"NAME\": \"value\"}")
		return nil
	}
	out := make(map[string]string, len(object.Members))
	for i := range object.Members {
		m := &object.Members[i]
		key := name(m)
		if _, twice := out[key]; twice {
			e.fail(&m.Name, "%q stands there twice; remove one of them", key)
		}
		if lit, ok := m.Value.Value.(hujson.Literal); ok && lit.Kind() != '"' && lit.Kind() != 'n' {
			out[key] = lit.String()
			continue
		}
		var value string
		e.text(&m.Value, &value)
		out[key] = value
	}
	return out
}

func (e *entry) flag(v *hujson.Value, into *bool) {
	lit, ok := literal(v, 't')
	if !ok {
		e.fail(v, "true or false is expected here")
		return
	}
	*into = lit.Bool()
}

// count reads a whole number that is not negative.
func (e *entry) count(v *hujson.Value, into *int) {
	lit, ok := literal(v, '0')
	n := 0.0
	if ok {
		n = lit.Float()
	}
	if !ok || n < 0 || n != math.Trunc(n) || n > math.MaxInt32 {
		e.fail(v, "a whole number from 0 up is expected here")
		return
	}
	*into = int(n)
}

// clock reads a duration: "500ms", "1m30s", or a number of seconds.
func (e *entry) clock(v *hujson.Value, into *time.Duration) {
	if lit, ok := literal(v, '0'); ok {
		if s := lit.Float(); math.Abs(s) <= (time.Duration(math.MaxInt64) / 2).Seconds() {
			*into = time.Duration(s * float64(time.Second))
			return
		}
	} else if lit, ok := literal(v, '"'); ok {
		if d, err := time.ParseDuration(lit.String()); err == nil {
			*into = d
			return
		}
	}
	e.fail(v, "a duration is expected here; write it as \"500ms\", \"30s\" or \"5m\", or as a number of seconds")
}

// filePath reads the path of a file; a relative one begins at the workspace.
func (e *entry) filePath(v *hujson.Value) string {
	var path string
	if e.path(v, &path); path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(e.r.workspace, path)
	}
	return path
}

// envFile reads a file of NAME=value lines.
func (e *entry) envFile(v *hujson.Value) {
	shown, ok := e.raw(v)
	if !ok {
		return
	}
	path := e.filePath(v)
	if path == "" {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		e.fail(v, "envFile %q cannot be read; create it, or correct the path", shown)
		return
	}
	defer func() { _ = f.Close() }()
	e.fileEnv = map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || variableLen(key) < len(key) {
			e.warn(v, "envFile %q, line %d is not NAME=value, and is not used", shown, n)
			continue
		}
		if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		e.fileEnv[key] = value
	}
	if lines.Err() != nil {
		e.fail(v, "envFile %q cannot be read to its end; its lines are too long", shown)
	}
}
