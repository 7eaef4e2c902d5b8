package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
)

// toolSettingRows are the keys of the object below the name of a tool in "tools".
var toolSettingRows = []row{
	keyRow(func(e *entry, v *hujson.Value) { e.setting.Name, _ = e.readString(v) }, configkeys.Key{
		Name: "name", Type: "string", Default: "the server's", Example: `"search_code"`,
		Meaning: "Another name for the tool: 1 to 128 letters, digits, '_', '.' or '-'. A tool of the server that has this name itself is left out, with a warning. Patterns in tools are compared with this name."}),
	keyRow(func(e *entry, v *hujson.Value) { e.setting.Description, _ = e.readString(v) }, configkeys.Key{
		Name: "description", Type: "string", Default: "the server's", Example: `"Searches our code."`,
		Meaning: "Another description for the tool."}),
	keyRow(func(e *entry, v *hujson.Value) { e.setting.Fixed = e.readArguments(v) }, configkeys.Key{
		Name: "fixed", Type: "object of JSON values", Example: `{"org": "acme", "token": "${TOKEN}"}`,
		Meaning: "Arguments that every call gets. The input schema does not show them, and a call that has one of them is refused. Variables in texts are replaced."}),
	keyRow(func(e *entry, v *hujson.Value) { e.setting.Defaults = e.readArguments(v) }, configkeys.Key{
		Name: "defaults", Type: "object of JSON values", Example: `{"limit": 20}`,
		Meaning: "Arguments that a call gets unless it has them. The input schema shows them, as not required."}),
	durationRow(func(e *entry) *time.Duration { return &e.setting.Timeout }, configkeys.Key{
		Name: "timeout", Default: "timeouts.call", Example: `"5m"`,
		Meaning: "How long a call of the tool may take without a progress report. timeouts.call_total bounds it as a whole."}),
	boolRow(func(e *entry) *bool { return &e.settingHides }, configkeys.Key{
		Name: "hidden", Default: "false", Example: `true`,
		Meaning: "Hides the tool, as enabled: false, disabled: true and deny do."}),
	keyRow(func(e *entry, v *hujson.Value) { e.readBool(v, new(bool)) }, configkeys.Key{
		Name: "enabled", Aliases: []string{"disabled"}, Type: "boolean", Example: `false`,
		Meaning: "enabled: false and disabled: true hide the tool."}), // isDisabled has read it
}

// readToolSetting reads what the object below the name of a tool says. An object without a key of ours is for the host
// that wrote it.
func (e *entry) readToolSetting(tool string, object *hujson.Object) {
	hides := isDisabled(object)
	ours := slices.ContainsFunc(object.Members, func(m hujson.ObjectMember) bool {
		r := findRow(toolSettingRows, memberName(&m))
		return r != nil && r.Name != "enabled"
	})
	if ours {
		e.setting, e.settingHides = mcpvisor.ToolSetting{}, false
		e.within("."+tool, func() { e.readMembers(object, toolSettingRows) })
		if hides = hides || e.settingHides; !hides {
			if e.spec.ToolSettings == nil {
				e.spec.ToolSettings = map[string]mcpvisor.ToolSetting{}
			}
			e.spec.ToolSettings[tool] = e.setting
		}
	}
	if hides {
		e.tools.deny = append(e.tools.deny, tool)
	}
}

// readArguments reads an object of JSON values, and replaces the variables in their texts.
func (e *entry) readArguments(v *hujson.Value) map[string]json.RawMessage {
	return readMapOf(e, v, "an object", `{"argument": "value"}`, func(m *hujson.ObjectMember) json.RawMessage {
		text, _ := json.Marshal(e.expandedJSON(&m.Value)) // what was parsed can be encoded
		return text
	})
}

// expandedJSON returns a value with the variables in its texts replaced.
func (e *entry) expandedJSON(v *hujson.Value) any {
	switch value := v.Value.(type) {
	case *hujson.Object:
		out := map[string]any{}
		for name, m := range members(value) {
			e.within("."+name, func() { out[name] = e.expandedJSON(&m.Value) })
		}
		return out
	case *hujson.Array:
		out := make([]any, len(value.Elements))
		for i := range value.Elements {
			e.within(fmt.Sprintf("[%d]", i), func() { out[i] = e.expandedJSON(&value.Elements[i]) })
		}
		return out
	case hujson.Literal:
		if value.Kind() == '"' {
			var text string
			e.readText(v, &text)
			return text
		}
		return json.RawMessage(value)
	}
	return nil
}
