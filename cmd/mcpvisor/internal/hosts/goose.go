package hosts

import (
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// readGoose reads the extensions of goose.
func readGoose(text []byte, _ Environment) ([]raw, []input, error) {
	var file struct {
		Extensions yaml.Node `yaml:"extensions"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, nil, notValid("YAML", err)
	}
	var entries []raw
	if file.Extensions.Kind != yaml.MappingNode {
		return nil, nil, nil
	}
	for i := 0; i+1 < len(file.Extensions.Content); i += 2 {
		key, value := file.Extensions.Content[i], file.Extensions.Content[i+1]
		r := raw{name: key.Value, line: key.Line}
		var decoded map[string]any
		if err := value.Decode(&decoded); err != nil || decoded == nil { // the decoder bounds what aliases stand for
			r.err = errors.New("it is not a mapping with names as keys")
		}
		r.entry, _ = ordered(decoded).(object)
		entries = append(entries, r)
	}
	return entries, nil, nil
}

// goose converts an extension of goose. Of those, "stdio", "sse" and "streamable_http" are servers.
func goose(entry object) (object, []string, error) {
	if inner, ok := entry.Get("config").(object); ok { // older versions
		inner.Set("enabled", entry.Get("enabled"))
		entry = inner
	}
	entry, kind := take(entry, "type")
	converted, entry := renamed(entry, [][2]string{{"cmd", "command"}, {"args", "args"}, {"uri", "url"}, {"headers", "headers"}})
	switch kind {
	case "stdio", "streamable_http", nil:
	case "sse":
		converted = append(object{{Key: "type", Value: "sse"}}, converted...)
	default:
		return nil, nil, fmt.Errorf("it has type %q, which goose runs itself", kind)
	}
	if headers, ok := converted.Get("headers").(object); ok {
		converted.Set("headers", mapTexts(headers, func(text string) string { return bareVariable.ReplaceAllString(text, "$${$1}") }))
	}
	entry, variables := take(entry, "envs")
	env, _ := variables.(object)
	entry, names := take(entry, "env_keys") // goose has their values in its keyring
	list, _ := names.([]any)
	for _, v := range list {
		if name, ok := v.(string); ok && env.Get(name) == nil {
			env.Set(name, "${"+name+"}")
		}
	}
	if len(env) > 0 && converted.Get("command") != nil { // those of an endpoint are variables of its headers
		converted.Set("env", env)
	}
	entry, tools := take(entry, "available_tools")
	if list, _ := tools.([]any); len(list) > 0 { // an empty list allows all
		converted.Set("enabledTools", list)
	}
	if entry.Get("enabled") == false {
		converted.Set("disabled", true)
	}
	entry, timeout := take(entry, "timeout")
	for _, key := range []string{"enabled", "name", "description", "display_name", "bundled"} {
		entry, _ = take(entry, key)
	}
	rest, notes, err := common(entry)
	return setCallTimeout(append(converted, rest...), timeout, time.Second), notes, err
}
