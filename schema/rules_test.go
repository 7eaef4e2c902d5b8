package schema_test

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// rules are what a provider's documentation and error messages say about a function. They
// are written without the code of the package, so that a mistake there is seen.
type rules struct {
	name        *regexp.Regexp
	description int                             // most characters; 0: no bound
	root        []string                        // keywords rejected at the top level
	keywords    []string                        // nil: any
	formats     []string                        // nil: any
	key         *regexp.Regexp                  // names of parameters; nil: any
	patterns    bool                            // regular expressions that Python and JavaScript compile only
	itemsPass   bool                            // any keyword within "items"
	schema      func(m map[string]any) []string // what else one schema breaks
}

var providerRules = map[string]rules{
	"openai":           openAIRules,
	"openai-responses": openAIRules,
	"anthropic": {
		name: regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`),
		root: []string{"anyOf", "oneOf", "allOf"},
		key:  regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`),
	},
	"gemini": {
		name: regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`),
		keywords: strings.Fields("type format title description enum items prefixItems minItems maxItems minimum maximum " +
			"anyOf properties additionalProperties required"),
		formats: strings.Fields("date-time date time int32 int64 float double"),
		schema: func(m map[string]any) (broken []string) {
			list, _ := m["enum"].([]any)
			kinds := map[string]bool{}
			for _, v := range list {
				kinds[fmt.Sprintf("%T", v)] = true
			}
			if len(kinds) > 1 || kinds["bool"] || kinds["<nil>"] {
				broken = append(broken, "enum has other values than texts or numbers")
			}
			return broken
		},
	},
	"ollama": {
		name:     regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`),
		keywords: strings.Fields("type description enum items anyOf properties required"), itemsPass: true,
	},
}

var openAIRules = rules{
	name:        regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`),
	description: 1024, patterns: true,
	root: []string{"oneOf", "anyOf", "allOf", "enum", "not"},
	schema: func(m map[string]any) (broken []string) {
		names := typesOf(m)
		if _, has := m["properties"]; !has && slices.Contains(names, "object") {
			broken = append(broken, "object schema missing properties")
		}
		if _, has := m["items"]; !has && slices.Contains(names, "array") {
			broken = append(broken, "array schema missing items")
		}
		return broken
	},
}

func typesOf(m map[string]any) (names []string) {
	switch t := m["type"].(type) {
	case string:
		return []string{t}
	case []any:
		for _, e := range t {
			names = append(names, e.(string))
		}
	}
	return names
}

// check returns what a function breaks.
func (r rules) check(name, description string, parameters map[string]any) (broken []string) {
	if !r.name.MatchString(name) {
		broken = append(broken, "name "+name)
	}
	if n := utf8.RuneCountInString(description); r.description > 0 && n > r.description || !utf8.ValidString(description) {
		broken = append(broken, fmt.Sprintf("description of %d characters", n))
	}
	if parameters["type"] != "object" {
		broken = append(broken, fmt.Sprintf("type %v at the top level", parameters["type"]))
	}
	if _, ok := parameters["properties"].(map[string]any); !ok {
		broken = append(broken, "no properties at the top level")
	}
	for _, keyword := range r.root {
		if _, has := parameters[keyword]; has {
			broken = append(broken, keyword+" at the top level")
		}
	}
	schemas := 0
	r.walk(parameters, "", 0, &schemas, &broken)
	return broken
}

// subschemas says where a schema has other schemas: in the keyword, in a list, in a map.
var subschemas = map[string]string{
	"items": "one", "not": "one", "if": "one", "then": "one", "else": "one", "contains": "one", "propertyNames": "one", "additionalProperties": "one",
	"unevaluatedItems": "one", "unevaluatedProperties": "one", "anyOf": "list", "oneOf": "list", "allOf": "list", "prefixItems": "list",
	"properties": "map", "patternProperties": "map", "dependentSchemas": "map",
}

func (r rules) walk(v any, at string, depth int, schemas *int, broken *[]string) {
	fail := func(format string, args ...any) {
		*broken = append(*broken, at+": "+fmt.Sprintf(format, args...))
	}
	m, ok := v.(map[string]any)
	if !ok {
		fail("%v is not a schema", v)
		return
	}
	if *schemas++; depth > 64 || *schemas > 6000 {
		fail("deeper than 64, or more than 6,000 schemas")
		return
	}
	for keyword, v := range m {
		switch {
		case r.keywords != nil && !slices.Contains(r.keywords, keyword):
			fail("unknown keyword %s", keyword)
		case strings.HasPrefix(keyword, "$"), keyword == "definitions", keyword == "allOf", keyword == "nullable":
			fail("keyword %s", keyword)
		}
		switch subschemas[keyword] {
		case "one":
			inner := r
			if keyword == "items" && r.itemsPass {
				inner.keywords = nil
			}
			if _, isBool := v.(bool); !isBool || keyword != "additionalProperties" && keyword != "unevaluatedProperties" {
				inner.walk(v, at+"/"+keyword, depth+1, schemas, broken)
			}
		case "list":
			list, ok := v.([]any)
			if !ok || len(list) == 0 {
				fail("%s is not a list of schemas", keyword)
			}
			for i, e := range list {
				r.walk(e, fmt.Sprintf("%s/%s/%d", at, keyword, i), depth+1, schemas, broken)
			}
		case "map":
			named, ok := v.(map[string]any)
			if !ok {
				fail("%s is not an object", keyword)
			}
			for name, e := range named {
				if keyword == "properties" && at == "" && r.key != nil && !r.key.MatchString(name) {
					fail("property %q", name)
				}
				r.walk(e, at+"/"+keyword+"/"+name, depth+1, schemas, broken)
			}
		}
	}
	for _, problem := range metaErrors(m) {
		fail("%s", problem)
	}
	if f, ok := m["format"].(string); ok && r.formats != nil && !slices.Contains(r.formats, f) {
		fail("format %s", f)
	}
	if r.patterns {
		if p, ok := m["pattern"].(string); ok && regexp.MustCompile(`\\p|\(\?[^:]`).MatchString(p) {
			fail("pattern %s", p)
		}
	}
	if r.schema != nil {
		for _, problem := range r.schema(m) {
			fail("%s", problem)
		}
	}
}

var typeNames = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// metaErrors is what one schema breaks of the meta-schema of draft 2020-12.
func metaErrors(m map[string]any) (broken []string) {
	types, isList := m["type"].([]any)
	if t, isText := m["type"].(string); isText {
		types = []any{t}
	} else if m["type"] != nil && (!isList || len(types) < 2) {
		broken = append(broken, "type is no text and no list of two")
	}
	for i, t := range types {
		if name, _ := t.(string); !slices.Contains(typeNames, name) || slices.Contains(types[:i], t) {
			broken = append(broken, fmt.Sprintf("type %v", t))
		}
	}
	for _, keyword := range []string{"title", "description", "format", "pattern"} {
		if _, isText := m[keyword].(string); m[keyword] != nil && !isText {
			broken = append(broken, keyword+" is not a text")
		}
	}
	for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} {
		if _, isNumber := m[keyword].(float64); m[keyword] != nil && !isNumber {
			broken = append(broken, keyword+" is not a number")
		}
	}
	for _, keyword := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"} {
		if n, isNumber := m[keyword].(float64); m[keyword] != nil && (!isNumber || n < 0 || n != math.Trunc(n)) {
			broken = append(broken, keyword+" is not a count")
		}
	}
	for _, keyword := range []string{"required", "enum"} {
		list, isList := m[keyword].([]any)
		seen := map[string]bool{}
		for _, e := range list {
			text, _ := json.Marshal(e)
			if _, isText := e.(string); seen[string(text)] || keyword == "required" && !isText {
				broken = append(broken, fmt.Sprintf("%s has %s twice, or no text", keyword, text))
			}
			seen[string(text)] = true
		}
		if v, has := m[keyword]; has && (!isList || len(list) == 0) {
			broken = append(broken, fmt.Sprintf("%s is %v", keyword, v))
		}
	}
	return broken
}
