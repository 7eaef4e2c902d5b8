package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/oauth"
)

// valueSchema returns the schema of the value of a key, without null. It panics for a
// type that it does not know; a test calls it for every row.
func (r *row) valueSchema() jsonSchema {
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
	case "list of patterns, or object": // also {"TOOL": false}
		lists := map[string]*jsonSchema{}
		for _, inner := range r.nested {
			lists[inner.Name] = &jsonSchema{Description: schemaText(inner.Key), Items: patternSchema}
		}
		return jsonSchema{Type: []string{"array", "object"}, Items: patternSchema, Properties: lists}
	}
	panic(fmt.Sprintf("config: the type %q of %q has no schema; add it to typeSchemas", r.Type, r.Name))
}

var (
	textSchema   = jsonSchema{Type: []string{"string"}}
	countSchema  = jsonSchema{Type: []string{"integer"}, Minimum: number(0), Maximum: number(math.MaxInt32)}
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
	"any":                    {},
	"string":                 textSchema,
	"path":                   textSchema,
	"URL":                    textSchema,
	"boolean":                {Type: []string{"boolean"}},
	"number":                 countSchema,
	"number from 0 to 1":     {Type: []string{"number"}, Minimum: number(0), Maximum: number(1)},
	`number, or "unlimited"`: anyOf(countSchema, oneOfTexts("unlimited")),
	"duration": anyOf(jsonSchema{Type: []string{"string"}, Pattern: durationPattern},
		jsonSchema{Type: []string{"number"}, Minimum: number(-maxSeconds), Maximum: number(maxSeconds)}),
	`"keep", "withdraw", or duration`: anyOf(oneOfTexts("keep", "withdraw"), jsonSchema{Type: []string{"string"}, Pattern: graceLengths},
		jsonSchema{Type: []string{"number"}, Minimum: number(0), Maximum: number(maxSeconds)}),
	`"always", "conflict" or "never"`:            oneOfTexts(string(settings.PrefixAlways), string(settings.PrefixOnConflict), string(settings.PrefixNever)),
	`"shared" or "client"`:                       oneOfTexts(string(settings.ShareAll), string(settings.ShareClient)),
	"list of strings":                            listSchema,
	"list of patterns":                           {Type: []string{"array"}, Items: patternSchema},
	"object of strings":                          {Type: []string{"object"}, Additional: &scalarSchema},
	"list of strings, or one string with spaces": {Type: []string{"array", "string"}, Items: &textSchema},
	`"stdio", "http", "sse" or "ws"`: anyOf(oneOfTexts("stdio", "http", "sse", "ws"),
		jsonSchema{Type: []string{"string"}, Pattern: kindPattern(append(append([]string{""}, programKinds...), endpointKinds...))}),
	`"auto", "legacy" or "modern"`: oneOfTexts("auto", string(mcpvisor.EraLegacy), string(mcpvisor.EraModern)),
	`"authorization_code" or "client_credentials"`: anyOf(
		oneOfTexts(string(oauth.GrantAuthorizationCode), string(oauth.GrantClientCredentials), string(oauth.GrantJWTBearer), ""),
		jsonSchema{Type: []string{"string"}, Pattern: variablePattern}),
	`"keyring", "memory", or path of a directory`: anyOf(oneOfTexts("keyring", "memory", ""),
		jsonSchema{Type: []string{"string"}, Pattern: `[/\\]|^~|` + variablePattern}),
}

// callTimeoutSchema is the schema of other hosts' "timeout". What it rejects is ignored by
// the loader, with a warning.
var callTimeoutSchema = &jsonSchema{Type: []string{"number"}, Above: number(0), Maximum: number(1e9)}

func number(n float64) *float64 { return &n }

func anyOf(schemas ...jsonSchema) (s jsonSchema) {
	for i := range schemas {
		s.AnyOf = append(s.AnyOf, &schemas[i])
	}
	return s
}

func oneOfTexts(texts ...string) jsonSchema {
	s := jsonSchema{Type: []string{"string"}}
	for _, text := range texts {
		s.Enum = append(s.Enum, text)
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
