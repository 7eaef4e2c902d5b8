package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// withoutEffect are keys of mcpvisor that have no effect there, or that convert to others.
var withoutEffect = []string{"autoApprove", "alwaysAllow", "timeout"}

// knownKeys are the keys of an entry that are kept as they are.
var knownKeys = func() (keys []string) {
	for _, k := range configkeys.All() {
		if !strings.Contains(k.Name, ".") {
			keys = append(append(keys, k.Name), k.Aliases...)
		}
	}
	return slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(withoutEffect, key) })
}()

// common converts an entry of a host whose keys are those of mcpvisor. It leaves out keys
// that mean nothing there, and says which.
func common(entry object) (object, []string, error) {
	var converted, left object
	for _, m := range entry {
		switch {
		case m.Value == nil: // the same as no key
		case slices.Contains(knownKeys, m.Key):
			converted.Set(m.Key, m.Value)
		default:
			left = append(left, m)
		}
	}
	return converted, leftOut(left), nil
}

// leftOut are the notes about keys that were left out: those that change what happens say what the server lacks.
func leftOut(left object) (notes []string) {
	var keys []string
	for _, m := range left {
		switch lacks, known := configkeys.Lacks(m.Key); {
		case !known:
			keys = append(keys, m.Key)
		case !asksForNothing(m.Value):
			notes = append(notes, fmt.Sprintf("left out: %q is not supported here: %s", m.Key, lacks))
		}
	}
	if len(keys) > 0 {
		notes = append(notes, "left out, because mcpvisor has no such key: "+strings.Join(keys, ", "))
	}
	return notes
}

// asksForNothing reports whether a value is null, false or {}.
func asksForNothing(value any) bool {
	inner, isObject := value.(object)
	return value == nil || value == false || isObject && len(inner) == 0
}

// withMilliseconds is common for a host whose "timeout" is that of a call in milliseconds.
func withMilliseconds(entry object) (object, []string, error) {
	rest, timeout := take(entry, "timeout")
	converted, notes, err := common(rest)
	return setCallTimeout(converted, timeout, time.Millisecond), notes, err
}

// gemini converts an entry of Gemini CLI: "httpUrl" wins over "url".
func gemini(entry object) (object, []string, error) {
	if entry.Get("httpUrl") != nil {
		var httpURL any
		entry, _ = take(entry, "url")
		entry, httpURL = take(entry, "httpUrl")
		entry.Set("url", httpURL)
	}
	return withMilliseconds(entry)
}

// zed converts an entry of Zed, whose "command" was an object in older versions.
func zed(entry object) (object, []string, error) {
	entry, source := take(entry, "source")
	if source == "extension" || entry.Get("command") == nil && entry.Get("url") == nil {
		return nil, nil, errors.New("an extension of Zed starts it, so there is no command; install the server by itself")
	}
	if command, ok := entry.Get("command").(object); ok {
		within, path := take(command, "path")
		rest, _ := take(entry, "command")
		entry = object{{Key: "command", Value: path}}
		for _, m := range append(within, rest...) {
			entry.Set(m.Key, m.Value)
		}
	}
	entry, timeout := take(entry, "timeout")
	converted, notes, err := common(entry)
	return setCallTimeout(converted, timeout, time.Second), notes, err
}

// take returns an object without a key, and the value that it had there.
func take(o object, key string) (rest object, value any) {
	for _, m := range o {
		if m.Key == key {
			value = m.Value
			continue
		}
		rest = append(rest, m)
	}
	return rest, value
}

// setCallTimeout sets the timeout of calls. A value that is not a positive number is left
// out.
func setCallTimeout(entry object, timeout any, unit time.Duration) object {
	d, ok := duration(timeout, unit)
	if !ok {
		return entry
	}
	timeouts := object{{Key: "call", Value: d.String()}}
	if d > defaults.CallTotalTimeout {
		timeouts.Set("call_total", d.String())
	}
	entry.Set("timeouts", timeouts)
	return entry
}

// setStartTimeout sets the timeout of the start, as setCallTimeout does that of calls.
func setStartTimeout(entry object, timeout any, unit time.Duration) object {
	if d, ok := duration(timeout, unit); ok {
		timeouts, _ := entry.Get("timeouts").(object)
		timeouts.Set("start", d.String())
		entry.Set("timeouts", timeouts)
	}
	return entry
}

func duration(v any, unit time.Duration) (time.Duration, bool) {
	text := fmt.Sprint(v)
	var n float64
	if err := json.Unmarshal([]byte(text), &n); err != nil || n <= 0 || n > 1e9 {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}

// readCodex reads the tables below mcp_servers.
func readCodex(text []byte, _ Environment) ([]raw, []input, error) {
	var file map[string]any
	meta, err := toml.Decode(string(text), &file)
	if err != nil {
		return nil, nil, notValid("TOML", err)
	}
	servers, _ := file["mcp_servers"].(map[string]any)
	var entries []raw
	for _, key := range meta.Keys() { // in the order of the file
		if len(key) != 2 || key[0] != "mcp_servers" {
			continue
		}
		r := raw{name: key[1], line: tableLine(text, key[1])}
		var ok bool
		if r.entry, ok = ordered(servers[key[1]]).(object); !ok {
			r.err = errors.New("it is not a table")
		}
		entries = append(entries, r)
	}
	// A table that only has tables below it has no key of its own.
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if !slices.ContainsFunc(entries, func(r raw) bool { return r.name == name }) {
			entry, _ := ordered(servers[name]).(object)
			entries = append(entries, raw{name: name, line: tableLine(text, name), entry: entry})
		}
	}
	return entries, nil, nil
}

// tableLine finds the line of a server's table; 0 if it is written in another way.
func tableLine(text []byte, name string) int {
	quoted := regexp.QuoteMeta(name)
	at := regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*mcp_servers[ \t]*\.[ \t]*(?:` + quoted + `|"` + quoted + `"|'` + quoted + `')[ \t]*[.\]]`).FindIndex(text)
	if at == nil {
		return 0
	}
	return 1 + bytes.Count(text[:at[0]], []byte("\n"))
}

// ordered turns tables into objects with sorted keys.
func ordered(value any) any {
	switch v := value.(type) {
	case map[string]any:
		o := object{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			o.Set(key, ordered(v[key]))
		}
		return o
	case []map[string]any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = ordered(v[i])
		}
		return list
	case []any:
		list := slices.Clone(v)
		for i := range list {
			list[i] = ordered(list[i])
		}
		return list
	}
	return value
}

// codexKeys are the keys of Codex in the order in which an entry is written, and the keys
// of mcpvisor with the same meaning.
var codexKeys = [][2]string{
	{"command", "command"}, {"args", "args"}, {"env", "env"}, {"cwd", "cwd"}, {"url", "url"}, {"http_headers", "headers"},
	{"enabled_tools", "enabledTools"}, {"disabled_tools", "disabledTools"},
}

// renamed returns what an entry has below the first keys of pairs, below the second ones and in their order, and the rest.
func renamed(entry object, pairs [][2]string) (converted, rest object) {
	rest = entry
	for _, pair := range pairs {
		var value any
		if rest, value = take(rest, pair[0]); value != nil {
			converted.Set(pair[1], value)
		}
	}
	return converted, rest
}

func codex(entry object) (object, []string, error) {
	converted, rest := renamed(entry, codexKeys)
	rest, variables := take(rest, "env_vars")
	if list, ok := variables.([]any); ok {
		env, _ := converted.Get("env").(object)
		for _, v := range list {
			if inner, ok := v.(object); ok {
				v = inner.Get("name")
			}
			if name, ok := v.(string); ok && env.Get(name) == nil { // Codex passes those that are set
				env.Set(name, "${"+name+":-}")
			}
		}
		converted.Set("env", env)
	}
	headers, _ := converted.Get("headers").(object)
	rest, token := take(rest, "bearer_token_env_var")
	if name, ok := token.(string); ok {
		headers.Set("Authorization", "Bearer ${"+name+"}")
	}
	rest, named := take(rest, "env_http_headers")
	if list, ok := named.(object); ok {
		for _, m := range list {
			headers.Set(m.Key, fmt.Sprintf("${%v}", m.Value))
		}
	}
	if len(headers) > 0 {
		converted.Set("headers", headers)
	}
	rest, seconds := take(rest, "tool_timeout_sec")
	converted = setCallTimeout(converted, seconds, time.Second)
	rest, seconds = take(rest, "startup_timeout_sec")
	rest, milliseconds := take(rest, "startup_timeout_ms")
	converted = setStartTimeout(setStartTimeout(converted, seconds, time.Second), milliseconds, time.Millisecond)
	rest, enabled := take(rest, "enabled")
	if enabled == false {
		converted.Set("disabled", true)
	}
	return converted, leftOut(rest), nil
}

// object is a JSON object that keeps the order of its members.
type object = configfile.Object

// raw is an entry as the host has it.
type raw struct {
	name  string
	line  int // from 1; 0 if it is not known
	entry object
	err   error // why it is no entry
}

// input is a declaration of VS Code's "inputs".
type input struct {
	id          string
	declaration object
}

// maxFile is the longest file that is read, in bytes. Claude Code keeps its history beside
// its servers.
const maxFile = 64 << 20

func readFile(path string) ([]byte, error) {
	text, err := regularfile.Read(path, maxFile)
	return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), err
}

// maxDepth is how deep objects and lists may be nested: the parser is recursive.
const maxDepth = 500

// syntaxLine finds the line in an error of a parser.
var syntaxLine = regexp.MustCompile(`\bline (\d+)`)

// notValid is the error about a text in another form than it should have. The error of the parser itself may show a secret.
func notValid(form string, err error) error {
	place := ""
	if found := syntaxLine.FindStringSubmatch(err.Error()); found != nil {
		place = " in line " + found[1]
	}
	return errors.New("it is not valid " + form + place + "; correct it there")
}

// parseJSON parses JSON with comments and trailing commas.
func parseJSON(text []byte) (*hujson.Value, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return &hujson.Value{Value: &hujson.Object{}}, nil
	}
	depth := 0
	for _, c := range text { // brackets in strings count, too: no real file has that many
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth > maxDepth {
			return nil, errors.New("it is nested too deep")
		}
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, notValid("JSON", err)
	}
	if root.Value.Kind() != '{' {
		return nil, errors.New("it is not a JSON object")
	}
	return &root, nil
}

// member returns the value of a key of an object, or nil.
func member(v *hujson.Value, key string) *hujson.Value {
	if m := configfile.MemberOf(v, key); m != nil {
		return &m.Value
	}
	return nil
}

// objectAt is member for an object; nil for another value.
func objectAt(v *hujson.Value, key string) *hujson.Value {
	if found := member(v, key); found != nil && found.Value.Kind() == '{' {
		return found
	}
	return nil
}

// entriesOf returns the members of an object; none of another value.
func entriesOf(text []byte, list *hujson.Value) (entries []raw) {
	members := configfile.MembersOf(list)
	for i := range members {
		m := &members[i]
		r := raw{name: configfile.NameOf(m), line: 1 + bytes.Count(text[:m.Name.StartOffset], []byte("\n"))}
		entry, ok := decode(&m.Value).(object)
		if !ok {
			r.err = errors.New("it is not an object")
		}
		r.entry = entry
		entries = append(entries, r)
	}
	return entries
}

// decode turns parsed JSON into values that configfile writes: objects keep their order,
// numbers their text.
func decode(v *hujson.Value) any {
	switch v := v.Value.(type) {
	case *hujson.Object:
		o := object{}
		for i := range v.Members {
			o.Set(configfile.NameOf(&v.Members[i]), decode(&v.Members[i].Value))
		}
		return o
	case *hujson.Array:
		list := make([]any, len(v.Elements))
		for i := range v.Elements {
			list[i] = decode(&v.Elements[i])
		}
		return list
	case hujson.Literal:
		switch v.Kind() {
		case '"':
			return v.String()
		case 't', 'f':
			return v.Bool()
		case '0':
			return json.Number(v)
		}
	}
	return nil
}

// readMember reads the servers below one key at the top.
func readMember(key string) func([]byte, Environment) ([]raw, []input, error) {
	return func(text []byte, _ Environment) ([]raw, []input, error) {
		top, err := parseJSON(text)
		if err != nil {
			return nil, nil, err
		}
		return entriesOf(text, member(top, key)), nil, nil
	}
}

// readClaudeCode reads the servers of the user, and those that the user has added for the
// project alone.
func readClaudeCode(text []byte, e Environment) ([]raw, []input, error) {
	top, err := parseJSON(text)
	if err != nil {
		return nil, nil, err
	}
	entries := entriesOf(text, member(top, "mcpServers"))
	projects := configfile.MembersOf(member(top, "projects"))
	for _, same := range []func(string) bool{
		func(dir string) bool { return dir == e.Dir || dir == filepath.ToSlash(e.Dir) },
		func(dir string) bool { return sameFile(dir, e.Dir) }, // the host may resolve symbolic links
	} {
		for i := range projects {
			if project := &projects[i].Value; project.Value.Kind() == '{' && same(configfile.NameOf(&projects[i])) {
				return append(entries, entriesOf(text, member(project, "mcpServers"))...), nil, nil
			}
		}
	}
	return entries, nil, nil
}

// readVSCode reads "servers" of mcp.json, or of "mcp" in settings.json, and "inputs".
func readVSCode(text []byte, _ Environment) ([]raw, []input, error) {
	top, err := parseJSON(text)
	if err != nil {
		return nil, nil, err
	}
	if objectAt(top, "servers") == nil {
		top = objectAt(top, "mcp")
	}
	var inputs []input
	if v := member(top, "inputs"); v != nil {
		list, _ := decode(v).([]any)
		for _, element := range list {
			declaration, _ := element.(object)
			if id, ok := declaration.Get("id").(string); ok {
				inputs = append(inputs, input{id, declaration})
			}
		}
	}
	return entriesOf(text, member(top, "servers")), inputs, nil
}
