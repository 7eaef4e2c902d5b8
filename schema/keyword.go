package schema

import (
	"math"
	"slices"
	"strings"
)

// form is what the value of a keyword has to be.
type form uint8

const (
	formAny         form = iota + 1
	formText             // a text
	formNumber           // a number
	formCount            // a whole number of 0 to maxCount
	formFlag             // true or false
	formList             // a list with at least one element
	formNames            // a list of texts
	formSchema           // a schema
	formSchemas          // a list of schemas
	formSchemaMap        // an object whose values are schemas
	formDependents       // an object whose values are lists of texts
	formNegative         // removed: where another change allows more, it would forbid more
	formBranch           // a schema that holds under a condition; only its properties are of use
	formMeaningless      // removed without a note: it says nothing about arguments
)

// keywords are those of draft 2020-12, and what other drafts and OpenAPI add. A keyword
// that is not listed is kept as it is, or removed if the provider has a list of its own.
var keywords = map[string]form{
	"title": formText, "description": formText, "format": formText, "pattern": formText,
	"contentEncoding": formText, "contentMediaType": formText,
	"minimum": formNumber, "maximum": formNumber, "exclusiveMinimum": formNumber, "exclusiveMaximum": formNumber, "multipleOf": formNumber,
	"minLength": formCount, "maxLength": formCount, "minItems": formCount, "maxItems": formCount,
	"minProperties": formCount, "maxProperties": formCount, "minContains": formCount, "maxContains": formNegative,
	"uniqueItems": formFlag, "deprecated": formFlag, "readOnly": formFlag, "writeOnly": formFlag, "nullable": formFlag,
	"default": formAny, "const": formAny, "examples": formList, "enum": formList,
	"required": formNames, "dependentRequired": formDependents,
	"items": formSchema, "not": formNegative, "if": formNegative, "then": formBranch, "else": formBranch, "contains": formSchema,
	"propertyNames": formSchema, "additionalProperties": formSchema,
	"unevaluatedItems": formNegative, "unevaluatedProperties": formNegative,
	"anyOf": formSchemas, "oneOf": formSchemas, "prefixItems": formSchemas,
	"properties": formSchemaMap, "patternProperties": formSchemaMap, "dependentSchemas": formSchemaMap,

	"$schema": formMeaningless, "$id": formMeaningless, "id": formMeaningless, "$anchor": formMeaningless, "$dynamicAnchor": formMeaningless,
	"contentSchema": formMeaningless, "$comment": formMeaningless, "$vocabulary": formMeaningless, "$defs": formMeaningless, "definitions": formMeaningless,
}

// maxCount is the largest count that is kept: every number in JSON holds it exactly.
const maxCount = 1 << 53

// lowerKeywords are all keywords in lower case.
var lowerKeywords = func() map[string]bool {
	lower := map[string]bool{"type": true, "allof": true, "additionalitems": true, "dependencies": true}
	for keyword := range keywords {
		lower[strings.ToLower(keyword)] = true
	}
	return lower
}()

// fits reports whether the value of a keyword has its form. Schemas within are not
// checked.
func (f form) fits(v any) bool {
	switch f {
	case formText:
		_, ok := v.(string)
		return ok
	case formNumber:
		_, ok := v.(float64)
		return ok
	case formCount:
		n, ok := v.(float64)
		return ok && n >= 0 && n <= maxCount && n == math.Trunc(n)
	case formFlag:
		_, ok := v.(bool)
		return ok
	case formList, formSchemas:
		list, ok := v.([]any)
		return ok && len(list) > 0
	case formNames:
		return isNames(v)
	case formSchemaMap:
		_, ok := v.(map[string]any)
		return ok
	case formDependents:
		m, ok := v.(map[string]any)
		for _, names := range m {
			ok = ok && isNames(names)
		}
		return ok
	default:
	}
	return true
}

func isNames(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(e any) bool { _, text := e.(string); return !text })
}

// typeNames are the types of JSON Schema, and other names that servers use for them.
var typeNames = map[string]string{
	"string": "string", "number": "number", "integer": "integer", "boolean": "boolean", "object": "object", "array": "array", "null": "null",
	"String": "string", "str": "string", "text": "string", "Number": "number", "float": "number", "double": "number", "Integer": "integer", "int": "integer", "long": "integer",
	"Boolean": "boolean", "bool": "boolean", "Object": "object", "dict": "object", "map": "object", "Array": "array", "list": "array", "None": "null",
	"STRING": "string", "NUMBER": "number", "INTEGER": "integer", "BOOLEAN": "boolean", "OBJECT": "object", "ARRAY": "array", "NULL": "null",
}

// types returns the types that a normal schema names; none if it allows all.
func types(m map[string]any) []string {
	switch t := m["type"].(type) {
	case string:
		return []string{t}
	case []any:
		names := make([]string, len(t))
		for i, name := range t {
			names[i], _ = name.(string)
		}
		return names
	}
	return nil
}

// setTypes sets the types of a schema: a text for one, a list for several, nothing for
// none.
func setTypes(m map[string]any, names []string) {
	switch len(names) {
	case 0:
		delete(m, "type")
	case 1:
		m["type"] = names[0]
	default:
		list := make([]any, len(names))
		for i, name := range names {
			list[i] = name
		}
		m["type"] = list
	}
}
