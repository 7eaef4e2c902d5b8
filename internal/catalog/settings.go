package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Settings are those of mcpvisor.ServerSpec.ToolSettings, by the server's own names of its tools.
type Settings map[string]mcpvisor.ToolSetting

// find returns the server's own name of an offered tool, and its setting. It reports false for a name that the settings
// have taken from its tool.
func (s Settings) find(offered string) (own string, setting mcpvisor.ToolSetting, ok bool) {
	for own, setting := range s {
		if setting.Name == offered {
			return own, setting, true
		}
	}
	setting = s[offered]
	return offered, setting, setting.Name == ""
}

// Timeout returns the timeout of an offered tool; 0 if it has none of its own.
func (s Settings) Timeout(offered string) (d time.Duration) {
	if len(s) > 0 {
		_, setting, _ := s.find(offered)
		d = setting.Timeout
	}
	return d
}

// MapCall returns the server's own name of an offered tool, and the params of a call of it with that name and with the
// arguments of its setting. params are valid JSON. The error is a *mcpvisor.Error.
func (s Settings) MapCall(offered string, params json.RawMessage) (own string, mapped json.RawMessage, err error) {
	own, setting, ok := s.find(offered)
	if !ok {
		return "", nil, &mcpvisor.Error{Kind: mcpvisor.ErrUnknownTool, Outcome: mcpvisor.OutcomeNotSent,
			Cause: errors.New("the configuration of its server gives the tool another name"), Hint: "call it " + strconv.Quote(setting.Name)}
	}
	if own == offered && len(setting.Fixed) == 0 && len(setting.Defaults) == 0 {
		return own, params, nil
	}
	var b jsonscan.Object
	b.Add("name", jsonscan.Quote(own))
	arguments := []byte("{}")
	_ = jsonscan.EachMember(params, func(key string, value []byte) error {
		switch key {
		case "name":
		case "arguments":
			arguments = value
		default:
			b.Add(key, value)
		}
		return nil
	})
	if arguments, err = withArguments(arguments, setting); err != nil {
		return "", nil, &mcpvisor.Error{Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	b.Add("arguments", arguments)
	return own, b.Close(), nil
}

// withArguments adds the arguments of a setting to those of a call. A fixed one in another case counts as the same,
// because some servers read it as the same.
func withArguments(arguments []byte, setting mcpvisor.ToolSetting) ([]byte, error) {
	var b jsonscan.Object
	has := map[string]bool{}
	err := jsonscan.EachMember(arguments, func(key string, value []byte) error {
		for fixed := range setting.Fixed {
			if strings.EqualFold(fixed, key) {
				return fmt.Errorf("the argument %.100q is fixed by the configuration of the server; leave it out", key)
			}
		}
		has[key] = true
		b.Add(key, value)
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(setting.Defaults)) {
		if !has[name] {
			b.Add(name, setting.Defaults[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(setting.Fixed)) {
		b.Add(name, setting.Fixed[name])
	}
	return b.Close(), err
}

// Adapted returns the catalog with its tools as settings offer them, and with warnings about settings that change
// nothing. c is unchanged. whole says that c has all tools of the server.
func (c *Catalog) Adapted(settings Settings, whole bool) *Catalog {
	if len(settings) == 0 {
		return c
	}
	next := *c
	next.Tools, next.Warnings = make([]mcpvisor.Tool, 0, len(c.Tools)), slices.Clone(c.Warnings)
	remarks := 0
	remark := func(format string, args ...any) {
		if remarks++; remarks <= WarningExamples {
			warn(&next.Warnings, NameTools, format, args...)
		}
	}
	for _, t := range c.Tools {
		setting, ok := settings[t.OriginalName]
		if own, _, _ := settings.find(cmp.Or(setting.Name, t.OriginalName)); own != t.OriginalName {
			remark("%.100q is left out, because the configuration calls %.100q so; choose another name there", t.OriginalName, own)
			continue
		}
		if !ok {
			next.Tools = append(next.Tools, t)
			continue
		}
		adapted, undeclared := adapt(t, setting)
		for _, name := range undeclared {
			remark("the argument %.100q, which the configuration sets for tool %.100q, is not in the schema of the tool", name, t.OriginalName)
		}
		next.Tools = append(next.Tools, adapted)
	}
	for _, own := range slices.Sorted(maps.Keys(settings)) {
		if whole && c.FindTool(own) == nil {
			remark("the configuration has a setting for tool %.100q, which the server does not have", own)
		}
	}
	if more := remarks - WarningExamples; more > 0 {
		warn(&next.Warnings, NameTools, "%d more of the settings of tools have such remarks", more)
	}
	slices.SortFunc(next.Tools, func(a, b mcpvisor.Tool) int { return strings.Compare(a.OriginalName, b.OriginalName) })
	next.index()
	next.Version = versions.Add(1)
	return &next
}

// adapt returns a tool as a setting offers it, and the arguments of the setting that its schema does not declare.
func adapt(t mcpvisor.Tool, setting mcpvisor.ToolSetting) (adapted mcpvisor.Tool, undeclared []string) {
	def := *t.Definition
	if setting.Name != "" {
		def.Name = setting.Name
		t.OriginalName, t.Name, t.Alias = def.Name, mcpvisor.Qualify(t.Server, def.Name), mcpvisor.Alias(t.Server, def.Name)
	}
	if setting.Description != "" {
		def.Description = setting.Description
	}
	if schema, ok := def.InputSchema.(json.RawMessage); ok && len(setting.Fixed)+len(setting.Defaults) > 0 {
		def.InputSchema, undeclared = adaptSchema(schema, setting)
	}
	var b jsonscan.Object
	b.Add("name", jsonscan.Quote(def.Name))
	if setting.Description != "" {
		b.Add("description", jsonscan.Quote(def.Description))
	}
	if schema, ok := def.InputSchema.(json.RawMessage); ok {
		b.Add("inputSchema", schema)
	}
	_ = jsonscan.EachMember(t.Raw, func(key string, value []byte) error {
		if key != "name" && key != "inputSchema" && (key != "description" || setting.Description == "") {
			b.Add(key, value)
		}
		return nil
	})
	t.Definition, t.Raw = &def, b.Close()
	return t, undeclared
}

// adaptSchema removes fixed arguments from an input schema, and states the defaults of others.
func adaptSchema(schema json.RawMessage, setting mcpvisor.ToolSetting) (adapted json.RawMessage, undeclared []string) {
	declared := map[string]bool{}
	adapted = jsonscan.Edit(schema, func(key string, value []byte) []byte {
		switch {
		case key == "properties" && value[0] == '{':
			return adaptProperties(value, setting, declared)
		case key == "required":
			return optional(value, setting)
		}
		return value
	})
	for _, arguments := range []map[string]json.RawMessage{setting.Fixed, setting.Defaults} {
		for _, name := range slices.Sorted(maps.Keys(arguments)) {
			if !declared[name] {
				undeclared = append(undeclared, name)
			}
		}
	}
	return adapted, undeclared
}

// adaptProperties is adaptSchema for "properties". It notes those that are declared.
func adaptProperties(properties []byte, setting mcpvisor.ToolSetting, declared map[string]bool) []byte {
	return jsonscan.Edit(properties, func(name string, value []byte) []byte {
		declared[strings.Clone(name)] = true
		if _, fixed := setting.Fixed[name]; fixed {
			return nil
		}
		preset, ok := setting.Defaults[name]
		if !ok || value[0] != '{' {
			return value
		}
		var with jsonscan.Object
		with.Add("default", preset)
		_ = jsonscan.EachMember(value, func(key string, value []byte) error {
			if key != "default" {
				with.Add(key, value)
			}
			return nil
		})
		return with.Close()
	})
}

// optional returns "required" without the arguments that a setting has; nil if nothing is left.
func optional(required []byte, setting mcpvisor.ToolSetting) []byte {
	var names, kept []string
	if json.Unmarshal(required, &names) != nil {
		return required
	}
	for _, name := range names {
		if setting.Fixed[name] == nil && setting.Defaults[name] == nil {
			kept = append(kept, name)
		}
	}
	if kept == nil {
		return nil
	}
	text, _ := json.Marshal(kept) // strings always marshal
	return text
}
