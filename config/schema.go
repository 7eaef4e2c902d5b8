package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/oauth"
)

// renderSchema is configkeys.Schema: it returns a JSON Schema (draft 7) of the files that [Load] reads, for editors. Like keys,
// it is made from the loader's own table.
//
// The schema rejects a text only where the loader reports a problem, be it an error or a
// warning such as that about an unknown key. The reverse does not hold: only the loader
// knows which variables are set, which programs and files exist, and which values
// contradict each other. The schema does not know comments and trailing commas; editors
// allow them in a file of the type "JSON with comments".
func renderSchema() []byte {
	text, err := json.MarshalIndent(fileSchema(), "", "  ")
	if err != nil { // every value in it can be encoded
		panic(err)
	}
	return append(text, '\n')
}

// jsonSchema is the part of JSON Schema that renderSchema uses. The zero value accepts
// anything.
type jsonSchema struct {
	Schema      string                 `json:"$schema,omitempty"`
	ID          string                 `json:"$id,omitempty"`
	Ref         string                 `json:"$ref,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Type        []string               `json:"type,omitempty"`
	Enum        []any                  `json:"enum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	MinLength   int                    `json:"minLength,omitempty"`
	Minimum     *float64               `json:"minimum,omitempty"`
	Maximum     *float64               `json:"maximum,omitempty"`
	Above       *float64               `json:"exclusiveMinimum,omitempty"`
	Items       *jsonSchema            `json:"items,omitempty"`
	MinItems    int                    `json:"minItems,omitempty"`
	Properties  map[string]*jsonSchema `json:"properties,omitempty"`
	// Additional is false, or the schema of the properties that Properties does not name.
	Additional  any                    `json:"additionalProperties,omitempty"`
	Names       *jsonSchema            `json:"propertyNames,omitempty"`
	Required    []string               `json:"required,omitempty"`
	AnyOf       []*jsonSchema          `json:"anyOf,omitempty"`
	AllOf       []*jsonSchema          `json:"allOf,omitempty"`
	Not         *jsonSchema            `json:"not,omitempty"`
	If          *jsonSchema            `json:"if,omitempty"`
	Then        *jsonSchema            `json:"then,omitempty"`
	Else        *jsonSchema            `json:"else,omitempty"`
	Examples    []json.RawMessage      `json:"examples,omitempty"`
	Definitions map[string]*jsonSchema `json:"definitions,omitempty"`
}

// fileSchema is the schema of a whole file. Other keys at the top belong to a host.
func fileSchema() *jsonSchema {
	list := &jsonSchema{Ref: "#/definitions/servers"}
	hasList := []*jsonSchema{{Required: []string{keyMCPServers}}, {Required: []string{keyServers}}}
	lists := map[string]*jsonSchema{keyMCPServers: list, keyServers: list}
	settings := &jsonSchema{Description: "VS Code's settings.json lists servers here.", Properties: lists}
	return &jsonSchema{
		Schema: "http://json-schema.org/draft-07/schema#", ID: configkeys.SchemaURL,
		Title:       "MCP servers",
		Description: "The servers that mcpvisor starts and supervises. Also read: files of Claude, Cursor, Gemini CLI, Windsurf and VS Code.",
		Type:        []string{"object"},
		Properties: map[string]*jsonSchema{
			"$schema": {Description: "The address of this schema.", Type: []string{"string"}},
			"journal": {Description: "The file in which mcpvisor run keeps the calls with a key, relative to this one.", Type: []string{"string"}},
			"records": {Description: "The directory in which mcpvisor run keeps a record of each call and event, relative to this file.", Type: []string{"string"}},
			"lock":    {Description: "What is done about tools that differ from mcpvisor.lock beside this file: off, warn, or enforce, which withholds them.", Type: []string{"string"}, Enum: []any{"off", "warn", "enforce"}},
			"rules": {Description: "Which calls of tools are sent: the first rule that matches a call counts, and a call that none matches is allowed.", Type: []string{"array"},
				Items: &jsonSchema{Ref: "#/definitions/rule"}},
			"gateway": gatewaySchema(),
			"groups": {Description: "Groups of servers that start in order and are restarted together, by name.", Type: []string{"object"},
				Additional: &jsonSchema{Ref: "#/definitions/group"}},
			"inputs": inputsSchema(), "mcp": settings,
			keyMCPServers: list, keyServers: list,
		},
		AnyOf: append(hasList, &jsonSchema{Required: []string{"mcp"},
			Properties: map[string]*jsonSchema{"mcp": {Type: []string{"object"}, AnyOf: hasList}}}),
		Definitions: map[string]*jsonSchema{
			"servers": {Description: "The servers, by name.", Type: []string{"object"}, Additional: &jsonSchema{Ref: "#/definitions/entry"}},
			"entry":   entrySchema(),
			"server":  serverSchema(),
			"profile": objectSchema(profileRows),
			"group":   objectSchema(groupRows),
			"rule":    objectSchema(ruleRows),
		},
	}
}

// gatewaySchema is the schema of "gateway".
func gatewaySchema() *jsonSchema {
	s := objectSchema(gatewayRows)
	s.Description = "What `mcpvisor run --mcp` and `mcpvisor stdio` offer of the servers."
	return s
}

// inputsSchema is the schema of VS Code's "inputs". The loader skips what it cannot read
// there, so the schema says little.
func inputsSchema() *jsonSchema {
	text := func(meaning string) *jsonSchema { return &jsonSchema{Description: meaning, Type: []string{"string"}} }
	return &jsonSchema{Description: "Values that the user is asked for, as ${input:id}.", Items: &jsonSchema{Properties: map[string]*jsonSchema{
		"id":          text("The name in ${input:id}."),
		"type":        {Enum: []any{"promptString", "pickString"}},
		"description": text("The question to the user."),
		"default":     text("The answer if the user gives none."),
		"password":    {Description: "The answer is not shown while it is typed, and nowhere later.", Type: []string{"boolean"}},
		"options":     {Description: "The answers to choose from.", Type: []string{"array"}},
	}}}
}

// entrySchema is the schema of an entry: nothing is checked in one that is disabled.
func entrySchema() *jsonSchema {
	disabled := []*jsonSchema{having("disabled", &jsonSchema{Enum: []any{true}})}
	for _, key := range append([]string{"enabled"}, enabledAliases...) {
		disabled = append(disabled, having(key, &jsonSchema{Enum: []any{false}}))
	}
	return &jsonSchema{
		Type: []string{"object"},
		If:   &jsonSchema{AnyOf: disabled},
		Else: &jsonSchema{Ref: "#/definitions/server"},
	}
}

// serverSchema is the schema of an entry that is not disabled. What concerns the entry
// as a whole repeats the checks of setTransport and checkType.
func serverSchema() *jsonSchema {
	s := objectSchema(entryRows)
	for _, key := range ignoredKeys {
		s.Properties[key] = &jsonSchema{Description: "A key of other hosts. It has no effect."}
	}
	for _, u := range configkeys.AllUnsupported() {
		for _, key := range u.Names {
			s.Properties[key] = unsupportedSchema(u)
		}
	}
	program, endpoint := hasProgram("."), hasText(".", transportKeys[1:]...)
	s.AnyOf = []*jsonSchema{program, endpoint}
	kind := func(names ...string) *jsonSchema {
		var kinds []*jsonSchema
		for _, key := range append([]string{"type"}, findRow(entryRows, "type").Aliases...) {
			kinds = append(kinds, having(key, &jsonSchema{Type: []string{"string"}, Pattern: kindPattern(names)}))
		}
		return &jsonSchema{AnyOf: kinds}
	}
	s.AllOf = []*jsonSchema{
		// A variable may be empty, so only texts without one contradict each other.
		{Not: &jsonSchema{AllOf: []*jsonSchema{hasProgram("^[^$]+$"), hasText("^[^$]+$", transportKeys[1:]...)}}},
		{If: kind(programKinds...), Then: program},
		{If: kind(endpointKinds...), Then: endpoint},
	}
	return s
}

// hasProgram accepts an object whose "command" is a text that matches a pattern, or a list that is not empty.
func hasProgram(pattern string) *jsonSchema {
	return &jsonSchema{AnyOf: []*jsonSchema{hasText(pattern, "command"), having("command", &jsonSchema{Type: []string{"array"}, MinItems: 1})}}
}

// having accepts an object with a key whose value a schema accepts.
func having(key string, value *jsonSchema) *jsonSchema {
	return &jsonSchema{Required: []string{key}, Properties: map[string]*jsonSchema{key: value}}
}

// hasText accepts an object with a text that matches a pattern below one of the keys.
func hasText(pattern string, keys ...string) *jsonSchema {
	var s jsonSchema
	for _, key := range keys {
		s.AnyOf = append(s.AnyOf, having(key, &jsonSchema{Type: []string{"string"}, Pattern: pattern}))
	}
	if len(s.AnyOf) == 1 {
		return s.AnyOf[0]
	}
	return &s
}

// objectSchema is the schema of an object that a table describes.
func objectSchema(rows []row) *jsonSchema {
	s := &jsonSchema{Type: []string{"object"}, Properties: map[string]*jsonSchema{}, Additional: false}
	for _, r := range rows {
		value := nullable(r.valueSchema())
		value.Description, value.Examples = schemaText(r.Key), []json.RawMessage{json.RawMessage(r.Example)}
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			s.Properties[name] = value
		}
	}
	return s
}

// schemaText describes a key to the user of an editor.
func schemaText(k configkeys.Key) string {
	text := k.Meaning
	if k.Default != "" {
		text += " Default: " + k.Default + "."
	}
	return text
}

// nullable returns a copy of a schema that accepts null, too, because null is the same as
// no key.
func nullable(s jsonSchema) *jsonSchema {
	switch {
	case s.Type != nil:
		s.Type = append(s.Type[:len(s.Type):len(s.Type)], "null")
		if s.Enum != nil {
			s.Enum = append(s.Enum[:len(s.Enum):len(s.Enum)], nil)
		}
	case s.AnyOf != nil:
		s.AnyOf = append(s.AnyOf[:len(s.AnyOf):len(s.AnyOf)], &jsonSchema{Type: []string{"null"}})
	}
	return &s
}

// valueSchema returns the schema of the value of a key, without null. It panics for a
// type that it does not know; a test calls it for every row.
func (r row) valueSchema() jsonSchema {
	if r.schema != nil {
		return *r.schema
	}
	if s, ok := typeSchemas[r.Type]; ok {
		return s
	}
	switch object := objectSchema(r.nested); r.Type {
	case "object":
		return *object
	case "boolean or object", "false or object":
		object.Type = []string{"boolean", "object"}
		return *object
	case `false, "none", a number of attempts, or object`:
		object.Type = []string{"boolean", "object"}
		return anyOf(*object, oneOfTexts("none"), countSchema)
	case "list of patterns, or allow and deny":
		lists := map[string]*jsonSchema{"allow": {Type: []string{"array", "null"}, Items: patternSchema}, "deny": {Type: []string{"array", "null"}, Items: patternSchema}}
		return jsonSchema{Type: []string{"array", "object"}, Items: patternSchema, Properties: lists, Additional: false}
	case "list of patterns, or object": // also {"TOOL": false} and {"TOOL": {…}}
		lists := map[string]*jsonSchema{}
		for _, inner := range r.nested {
			lists[inner.Name] = &jsonSchema{Description: schemaText(inner.Key), Items: patternSchema}
		}
		tool := objectSchema(toolSettingRows)
		tool.Type, tool.Additional = nil, nil // other values are for other hosts
		return jsonSchema{Type: []string{"array", "object"}, Items: patternSchema, Properties: lists, Additional: tool}
	}
	panic(fmt.Sprintf("config: the type %q of %q has no schema; add it to typeSchemas", r.Type, r.Name))
}

var (
	textSchema   = jsonSchema{Type: []string{"string"}}
	countSchema  = jsonSchema{Type: []string{"integer"}, Minimum: new(0.0), Maximum: new(float64(math.MaxInt32))}
	listSchema   = jsonSchema{Type: []string{"array"}, Items: &textSchema}
	scalarSchema = jsonSchema{Type: []string{"string", "number", "boolean"}}
	// patternSchema is one pattern of names of tools.
	patternSchema = &jsonSchema{Type: []string{"string"}, MinLength: 1}
	// variablePattern matches a text with a variable in it, which may stand for anything.
	variablePattern = `\$\{`
	// durationPattern is what time.ParseDuration accepts.
	durationPattern = `^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^[-+]?0$`
	// graceLengths are those that are not negative.
	graceLengths = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^[-+]?0$`
	// maxSeconds is the longest duration that readDuration accepts as a number.
	maxSeconds = (time.Duration(math.MaxInt64) / 2).Seconds()
)

// typeSchemas are the schemas of values, by the words of Key.Type.
var typeSchemas = map[string]jsonSchema{
	"any":                      {},
	"string":                   textSchema,
	"path":                     textSchema,
	"path, or list of strings": {Type: []string{"string", "array"}, Items: &textSchema},
	"URL":                      textSchema,
	"URL or false":             anyOf(textSchema, jsonSchema{Type: []string{"boolean"}, Enum: []any{false}}),
	`"required" or "assume"`:   oneOfTexts("required", "assume"),
	"boolean":                  {Type: []string{"boolean"}},
	"number":                   countSchema,
	"number from 0 to 1":       {Type: []string{"number"}, Minimum: new(0.0), Maximum: new(1.0)},
	`number, or "unlimited"`:   anyOf(countSchema, oneOfTexts("unlimited")),
	"duration": anyOf(jsonSchema{Type: []string{"string"}, Pattern: durationPattern},
		jsonSchema{Type: []string{"number"}, Minimum: new(-maxSeconds), Maximum: new(maxSeconds)}),
	`"keep", "withdraw", or duration`: anyOf(oneOfTexts("keep", "withdraw"), jsonSchema{Type: []string{"string"}, Pattern: graceLengths},
		jsonSchema{Type: []string{"number"}, Minimum: new(0.0), Maximum: new(maxSeconds)}),
	"pattern":                                        *patternSchema,
	"list of strings":                                listSchema,
	`"always", "conflict" or "never"`:                oneOfTexts(settings.PrefixAlways, settings.PrefixOnConflict, settings.PrefixNever),
	"list of patterns":                               {Type: []string{"array"}, Items: patternSchema},
	"object of JSON values":                          {Type: []string{"object"}},
	"object of strings":                              {Type: []string{"object"}, Additional: &scalarSchema},
	"list of strings, or one string with spaces":     {Type: []string{"array", "string"}, Items: &textSchema},
	"command line for the shell, or list of strings": {Type: []string{"array", "string"}, Items: &textSchema},
	`"stdio", "http", "sse" or "ws"`: anyOf(oneOfTexts("stdio", "http", "sse", "ws"),
		jsonSchema{Type: []string{"string"}, Pattern: kindPattern(append(append([]string{""}, programKinds...), endpointKinds...))}),
	`"authorization_code" or "client_credentials"`: anyOf(
		oneOfTexts(oauth.GrantAuthorizationCode, oauth.GrantClientCredentials, oauth.GrantJWTBearer, ""),
		jsonSchema{Type: []string{"string"}, Pattern: variablePattern}),
	`"keyring", "memory", or path of a directory`: anyOf(oneOfTexts("keyring", "memory", ""),
		jsonSchema{Type: []string{"string"}, Pattern: `[/\\]|^~|` + variablePattern}),
}

// callTimeoutSchema is the schema of other hosts' "timeout". What it rejects is ignored by
// the loader, with a warning.
var callTimeoutSchema = &jsonSchema{Type: []string{"number"}, Above: new(0.0), Maximum: new(1e9)}

func anyOf(schemas ...jsonSchema) (s jsonSchema) {
	for i := range schemas {
		s.AnyOf = append(s.AnyOf, &schemas[i])
	}
	return s
}

func oneOfTexts[T ~string](texts ...T) jsonSchema {
	s := jsonSchema{Type: []string{"string"}}
	for _, text := range texts {
		s.Enum = append(s.Enum, string(text))
	}
	return s
}

// kindPattern matches the spellings of "type" that checkType accepts: in any case, with
// '-' and '_' anywhere.
func kindPattern(kinds []string) string {
	var patterns []string
	for _, kind := range kinds {
		pattern := "[-_]*"
		for _, letter := range kind {
			pattern += fmt.Sprintf("[%c%c][-_]*", letter, letter-'a'+'A')
		}
		patterns = append(patterns, pattern)
	}
	return "^(" + strings.Join(patterns, "|") + ")$"
}
