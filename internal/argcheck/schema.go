// Package argcheck compares the arguments of a tool call with the tool's input schema.
//
// The schema comes from a server, which may be hostile, and the validator of
// google/jsonschema-go trusts it. So [Compile] accepts only schemas that refer to
// themselves alone, and [Schema.Check] first counts what the validator would do: a schema
// that refers to itself without an end makes it overflow the stack, which ends the process.
// Nothing is ever read from a file or a network.
package argcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is an input schema that arguments can be compared with. It does not change.
type Schema struct {
	resolved *jsonschema.Resolved
	root     any // as decoded from JSON, for the guard and for the words of errors
}

const (
	maxSchemaBytes = 1 << 20
	maxSchemaDepth = 200
)

// drafts are the values of "$schema" that the validator knows. It reads others as the
// latest draft, if the keyword is missing.
var drafts = map[string]bool{
	"http://json-schema.org/draft-07/schema#": true, "https://json-schema.org/draft-07/schema#": true,
	"https://json-schema.org/draft/2020-12/schema": true,
}

// Compile reads a schema. The error says why arguments cannot be compared with it.
func Compile(raw json.RawMessage) (s *Schema, err error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", maxSchemaBytes)
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, errors.New("it is not valid JSON")
	}
	m, isObject := root.(map[string]any)
	if !isObject {
		return nil, errors.New("it is not a schema of an object")
	}
	if draft, _ := m["$schema"].(string); !drafts[draft] {
		delete(m, "$schema")
	}
	delete(m, "$id")
	delete(m, "id")
	if err := prepare(m, 0); err != nil {
		return nil, err
	}
	defer func() { // the validator trusts schemas
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the validator failed: %.200v", r)
		}
	}()
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	parsed := new(jsonschema.Schema)
	if err := json.Unmarshal(text, parsed); err != nil {
		return nil, err
	}
	resolved, err := parsed.Resolve(&jsonschema.ResolveOptions{Loader: nil}) // nil: nothing is loaded
	if err != nil {
		return nil, err
	}
	return &Schema{resolved: resolved, root: root}, nil
}

// The keywords whose values are schemas, lists of schemas and maps of schemas.
var (
	schemaKeywords = []string{"items", "additionalItems", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties",
		"unevaluatedItems", "unevaluatedProperties"}
	listKeywords = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	mapKeywords  = []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)

// eachSchema calls f for the schemas directly in a schema.
func eachSchema(m map[string]any, f func(v any) error) error {
	for _, keyword := range schemaKeywords {
		if v, ok := m[keyword].(map[string]any); ok {
			if err := f(v); err != nil {
				return err
			}
		}
	}
	for _, keyword := range listKeywords {
		list, _ := m[keyword].([]any)
		for _, v := range list {
			if err := f(v); err != nil {
				return err
			}
		}
	}
	for _, keyword := range mapKeywords {
		named, _ := m[keyword].(map[string]any)
		for _, v := range named {
			if err := f(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare refuses what the guard does not understand, and removes regular expressions that
// Go cannot compile: the rest of the schema still counts.
func prepare(v any, depth int) error {
	m, ok := v.(map[string]any)
	switch {
	case !ok:
		return nil
	case depth > maxSchemaDepth:
		return fmt.Errorf("it is nested deeper than %d levels", maxSchemaDepth)
	}
	for _, keyword := range []string{"$dynamicRef", "$recursiveRef", "$id"} {
		if _, ok := m[keyword].(string); ok {
			return fmt.Errorf("%s is not supported", keyword)
		}
	}
	if ref, ok := m["$ref"].(string); ok && ref != "#" && (len(ref) < 2 || ref[:2] != "#/") {
		return fmt.Errorf("$ref %.80q refers to another place than the schema itself", ref)
	}
	if p, ok := m["pattern"].(string); ok && !compiles(p) {
		delete(m, "pattern")
	}
	if patterns, ok := m["patternProperties"].(map[string]any); ok {
		for p := range patterns {
			if !compiles(p) {
				delete(patterns, p)
				delete(m, "additionalProperties") // they may be what the pattern allows
				delete(m, "unevaluatedProperties")
			}
		}
	}
	return eachSchema(m, func(v any) error { return prepare(v, depth+1) })
}

func compiles(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}

// Check compares arguments with the schema. It returns nil if they match, and if comparing
// them would take too long. args is valid JSON.
func (s *Schema) Check(args []byte) (broken *Violation) {
	var instance any
	if json.Unmarshal(args, &instance) != nil {
		return nil
	}
	g := guard{root: s.root}
	if g.visit(s.root, instance, 0); g.exceeded {
		return nil
	}
	defer func() {
		if recover() != nil {
			broken = nil
		}
	}()
	if s.resolved.Validate(instance) == nil {
		return nil
	}
	d := diagnosis{root: s.root}
	if v := d.find(s.root, instance, "", 0); v != nil {
		return v
	}
	return &Violation{Rule: "schema", Reason: "they do not match the tool's input schema"}
}
