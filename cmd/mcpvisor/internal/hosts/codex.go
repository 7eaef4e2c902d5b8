package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/BurntSushi/toml"
)

// readCodex reads the tables below mcp_servers.
func readCodex(text []byte, _ Environment) ([]raw, []input, error) {
	var file map[string]any
	meta, err := toml.Decode(string(text), &file)
	if err != nil {
		place := ""
		if syntax, ok := errors.AsType[toml.ParseError](err); ok && syntax.Position.Line > 0 {
			place = fmt.Sprintf(" in line %d", syntax.Position.Line)
		}
		return nil, nil, errors.New("it is not valid TOML" + place + "; correct it there") // the decoder's error may show a secret
	}
	servers, _ := file["mcp_servers"].(map[string]any)
	var entries []raw
	for _, key := range meta.Keys() { // in the order of the file
		if len(key) != 2 || key[0] != "mcp_servers" {
			continue
		}
		r := raw{name: key[1], line: tableLine(text, key[1])}
		table, ok := servers[key[1]].(map[string]any)
		if !ok {
			r.err = errors.New("it is not a table")
		}
		r.entry = ordered(table)
		entries = append(entries, r)
	}
	// A table that only has tables below it has no key of its own.
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if !slices.ContainsFunc(entries, func(r raw) bool { return r.name == name }) {
			table, _ := servers[name].(map[string]any)
			entries = append(entries, raw{name: name, line: tableLine(text, name), entry: ordered(table)})
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

// ordered turns a table into an object with sorted keys.
func ordered(table map[string]any) object {
	o := object{}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		value := table[key]
		switch v := value.(type) {
		case map[string]any:
			value = ordered(v)
		case []map[string]any:
			list := make([]any, len(v))
			for i := range v {
				list[i] = ordered(v[i])
			}
			value = list
		case []any:
			list := make([]any, len(v))
			for i, element := range v {
				if inner, ok := element.(map[string]any); ok {
					element = ordered(inner)
				}
				list[i] = element
			}
			value = list
		}
		o.Set(key, value)
	}
	return o
}

// codexKeys are the keys of Codex in the order in which an entry is written, and the keys
// of mcpvisor with the same meaning.
var codexKeys = []struct{ codex, ours string }{
	{"command", "command"}, {"args", "args"}, {"env", "env"}, {"cwd", "cwd"}, {"url", "url"}, {"http_headers", "headers"},
	{"enabled_tools", "enabledTools"}, {"disabled_tools", "disabledTools"},
}

func codex(entry object) (converted object, notes []string, err error) {
	rest := entry
	for _, k := range codexKeys {
		var value any
		if rest, value = take(rest, k.codex); value != nil {
			converted.Set(k.ours, value)
		}
	}
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
	for _, start := range []struct {
		key  string
		unit time.Duration
	}{{"startup_timeout_sec", time.Second}, {"startup_timeout_ms", time.Millisecond}} {
		var value any
		rest, value = take(rest, start.key)
		if d, ok := duration(value, start.unit); ok {
			timeouts, _ := converted.Get("timeouts").(object)
			timeouts.Set("start", d.String())
			converted.Set("timeouts", timeouts)
		}
	}
	rest, enabled := take(rest, "enabled")
	if enabled == false {
		converted.Set("disabled", true)
	}
	var left []string
	for _, m := range rest {
		left = append(left, m.Key)
	}
	return converted, leftOut(left), nil
}
