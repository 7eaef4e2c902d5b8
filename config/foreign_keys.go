package config

import (
	"maps"
	"net/textproto"
	"slices"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/configkeys"
)

// foreignRows are keys of other hosts whose value has a form of its own. They follow the keys of an entry.
var foreignRows = []row{
	keyRow(func(e *entry, v *hujson.Value) {
		object, ok := v.Value.(*hujson.Object)
		if !ok {
			e.failType(v, "an object of strings", `{"X-Header": "VARIABLE"}`)
			return
		}
		for name, m := range members(object) {
			e.addHeader(&m.Value, name, "")
		}
	}, configkeys.Key{
		Name: "env_http_headers", Type: "object of strings", Field: "HTTP.Headers", Example: `{"X-Team": "TEAM"}`,
		Meaning: "Codex's key: headers by the names of the environment variables that have their values."}),
	keyRow(func(e *entry, v *hujson.Value) {
		if _, ok := e.readString(v); ok {
			e.addHeader(v, "Authorization", "Bearer ")
		}
	}, configkeys.Key{
		Name: "bearer_token_env_var", Type: "string", Field: "HTTP.Headers", Example: `"TOKEN"`,
		Meaning: "Codex's key: the environment variable that has the token of the Authorization header."}),
	keyRow(func(e *entry, v *hujson.Value) {
		for _, name := range e.readList(v) {
			if value, set := e.p.lookup(name); set {
				e.fileEnv = mergeEnv(e.fileEnv, map[string]string{name: value})
			}
		}
	}, configkeys.Key{
		Name: "env_vars", Aliases: []string{"env_keys"}, Type: "list of strings", Field: "Stdio.Env", Example: `["API_KEY"]`,
		Meaning: "The key of Codex and goose: environment variables of the host that the server gets, as far as they are set. env wins over it."}),
	durationRow(func(e *entry) *time.Duration { return &e.spec.Timeouts.Start }, configkeys.Key{
		Name: "startup_timeout_sec", Field: "Timeouts.Start", Example: `20`, Meaning: "Codex's key for timeouts.start."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readDuration(v, &e.spec.Timeouts.Call); e.callValue = v }, configkeys.Key{
		Name: "tool_timeout_sec", Type: "duration", Field: "Timeouts.Call", Example: `45`,
		Meaning: "Codex's key for timeouts.call."}),
}

// addHeader adds a header whose value is in the variable of the environment that v names, behind a text. The problem
// does not show a name that cannot be one: it may be the secret itself.
func (e *entry) addHeader(v *hujson.Value, name, before string) {
	variable := ""
	if lit, ok := literal(v, '"'); ok {
		variable = lit.String()
	}
	if variable == "" || variableLen(variable) < len(variable) {
		e.fail(v, "%q has a text that is not the name of a variable; write one, as in \"API_TOKEN\"", e.key)
		return
	}
	value, err := e.p.expand("${" + variable + "}")
	if err != nil {
		e.fail(v, "in %q: %v", e.key, err)
		return
	}
	e.addedHeaders[name] = before + value
}

// setHeaders adds the headers of other hosts' keys to those of "headers".
func (e *entry) setHeaders(at *hujson.Value) {
	for _, name := range slices.Sorted(maps.Keys(e.addedHeaders)) {
		for other := range e.http.Headers {
			if textproto.CanonicalMIMEHeaderKey(other) == textproto.CanonicalMIMEHeaderKey(name) {
				e.fail(at, "two keys set the header %q; remove one of them", name)
				return
			}
		}
		if e.http.Headers == nil {
			e.http.Headers = map[string]string{}
		}
		e.http.Headers[name] = e.addedHeaders[name]
	}
}

// refuseUnsupported reports a key of another host that changes what happens there, and what the server would lack. It
// reports false for other keys. A value that asks for nothing is no problem: null, false or {}.
func (e *entry) refuseUnsupported(m *hujson.ObjectMember) bool {
	lacks, ok := configkeys.Lacks(memberName(m))
	if !ok {
		return false
	}
	_, isNull := literal(&m.Value, 'n')
	flag, isFlag := literal(&m.Value, 't')
	object, isObject := m.Value.Value.(*hujson.Object)
	if !isNull && (!isFlag || flag.Bool()) && (!isObject || len(object.Members) > 0) {
		e.fail(&m.Name, "%q is not supported here: %s", memberName(m), lacks)
	}
	return true
}

// unsupportedSchema accepts the values of an unsupported key that ask for nothing.
func unsupportedSchema(u configkeys.Unsupported) *jsonSchema {
	return &jsonSchema{Description: "A key of other hosts that is not supported here: " + u.Lacks + ".", Enum: []any{nil, false, map[string]any{}}}
}

// enabledAliases are the names of "enabled" in files of other hosts.
var enabledAliases = []string{"isActive", "active"}
