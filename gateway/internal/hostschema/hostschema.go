// Package hostschema finds schemas of tools because of which hosts reject a whole list. It keeps no
// state, opens no file and no URL, and looks at a bounded number of bytes and schemas.
package hostschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Bounds of a schema that is passed on to a host.
const (
	maxSchemaBytes = 1 << 20
	maxSchemaDepth = 64
	maxSchemas     = 10_000
)

// schemaTypes are the valid values of the keyword type.
const schemaTypes = " array boolean integer null number object string "

// Problem returns what is wrong with the schema of an object; empty if nothing is known.
func Problem(raw json.RawMessage) string {
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) > maxSchemaBytes:
		return fmt.Sprintf("has %d bytes, and %d is the most", len(raw), maxSchemaBytes)
	case !jsonscan.ValidWithin(raw, maxSchemaDepth):
		return fmt.Sprintf("is no JSON, or nested deeper than %d levels", maxSchemaDepth)
	case raw[0] != '{':
		return "is not an object"
	}
	c := schemaCheck{left: maxSchemas, references: map[string]bool{}, anchors: map[string]bool{}}
	problem := c.schema(raw)
	if problem == "" && !c.isObject {
		problem = `has no "type": "object" at its top`
	}
	if problem == "" {
		problem = c.missing(raw)
	}
	return problem
}

// schemaCheck checks the form of one schema.
type schemaCheck struct {
	left     int  // how many more schemas are checked
	depth    int  // of the current schema; 1 at the top
	isObject bool // the top has the type object

	references map[string]bool // in the schema, without "#"
	anchors    map[string]bool
	hasParts   bool // an inner schema has an $id, which changes what its references lead to
}

// schema returns what is wrong with a schema; empty if nothing is.
func (c *schemaCheck) schema(raw []byte) (problem string) {
	if string(raw) == "true" || string(raw) == "false" {
		return ""
	}
	if c.left--; c.left < 0 {
		return fmt.Sprintf("has more than %d schemas", maxSchemas)
	}
	if raw[0] != '{' {
		return "has " + kindOf(raw) + " in place of a schema"
	}
	c.depth++
	defer func() { c.depth-- }()
	seen := map[string]bool{}
	err := jsonscan.EachMember(raw, func(keyword string, value []byte) error {
		if seen[keyword] {
			problem = "has " + message.Quote(keyword) + " twice in one object"
		} else if seen[keyword] = true; problem == "" {
			problem = c.keyword(keyword, value)
		}
		return nil
	})
	if problem == "" && err != nil {
		problem = "cannot be read: " + err.Error()
	}
	return problem
}

// keyword checks the value of a keyword.
func (c *schemaCheck) keyword(keyword string, value []byte) string {
	switch keyword {
	case "type":
		return c.typeKeyword(value)
	case "$ref", "$dynamicRef", "$recursiveRef":
		return c.reference(keyword, value)
	case "$anchor", "$dynamicAnchor":
		if name, err := jsonscan.ReadString(value); err == nil {
			c.anchors[name] = true
		}
	case "$id", "id":
		c.hasParts = c.hasParts || c.depth > 1
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		if value[0] != '{' {
			return "has " + kindOf(value) + " as " + keyword + "; it must be an object"
		}
		var problem string
		_ = jsonscan.EachMember(value, func(_ string, member []byte) error {
			if problem == "" {
				problem = c.schema(member)
			}
			return nil
		})
		return problem
	case "anyOf", "allOf", "oneOf", "prefixItems":
		return c.list(keyword, value)
	case "items":
		if value[0] == '[' { // before 2020-12
			return c.list(keyword, value)
		}
		return c.schema(value)
	case "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalItems":
		return c.schema(value)
	case "required":
		if !isListOfTexts(value) {
			return "has " + keyword + " that is no list of names"
		}
	case "enum":
		if value[0] != '[' {
			return "has an enum that is no list"
		}
	}
	return ""
}

func (c *schemaCheck) typeKeyword(value []byte) (problem string) {
	check := func(item []byte) bool {
		name, err := jsonscan.ReadString(item)
		if err != nil || name == "" || strings.Contains(name, " ") || !strings.Contains(schemaTypes, " "+name+" ") {
			problem = "has the unknown type " + message.Shorten(string(item))
			return false
		}
		if c.depth == 1 && name == "object" {
			c.isObject = value[0] != '[' // hosts expect a string, and no list
		}
		return true
	}
	if value[0] == '[' {
		jsonscan.EachItem(value, check)
		return problem
	}
	check(value)
	return problem
}

// list checks a list of schemas.
func (c *schemaCheck) list(keyword string, value []byte) (problem string) {
	if value[0] != '[' {
		return "has " + kindOf(value) + " as " + keyword + "; it must be a list"
	}
	jsonscan.EachItem(value, func(item []byte) bool {
		problem = c.schema(item)
		return problem == ""
	})
	return problem
}

func isListOfTexts(value []byte) bool {
	if value[0] != '[' {
		return false
	}
	texts := true
	jsonscan.EachItem(value, func(item []byte) bool {
		texts = item[0] == '"'
		return texts
	})
	return texts
}

func kindOf(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// maxScanned bounds the bytes that are scanned to follow references. References beyond it are assumed to
// be valid.
const maxScanned = 16 << 20

// reference accepts only references within the schema: a host may follow others.
func (c *schemaCheck) reference(keyword string, value []byte) string {
	target, err := jsonscan.ReadString(value)
	switch {
	case err != nil:
		return "has " + kindOf(value) + " as " + keyword + "; it must be a text"
	case !strings.HasPrefix(target, "#"):
		return "refers to " + message.Quote(target) + "; references must stay in the schema"
	case keyword != "$recursiveRef":
		c.references[target[1:]] = true
	}
	return ""
}

// missing reports a reference that leads nowhere: hosts that compile schemas reject the tool, and with
// it the whole list.
func (c *schemaCheck) missing(schema []byte) string {
	if c.hasParts {
		return ""
	}
	scanned := 0
	for _, target := range slices.Sorted(maps.Keys(c.references)) { // sorted: the result is the same each time
		if found, known := c.find(schema, target, &scanned); known && !found {
			return "refers to " + message.Quote("#"+target) + ", which it does not have"
		}
	}
	return ""
}

// find reports whether a reference leads somewhere. known is false if maxScanned was reached first.
func (c *schemaCheck) find(schema []byte, target string, scanned *int) (found, known bool) {
	if target == "" {
		return true, true
	}
	path, ok := strings.CutPrefix(target, "/")
	if !ok {
		return c.anchors[target], true
	}
	if path, err := url.PathUnescape(path); err == nil {
		for part := range strings.SplitSeq(path, "/") {
			if *scanned += len(schema); *scanned > maxScanned {
				return false, false
			}
			if schema = child(schema, strings.NewReplacer("~1", "/", "~0", "~").Replace(part)); schema == nil {
				return false, true
			}
		}
		return true, true
	}
	return false, true
}

// child returns the member or item with that name; nil without one.
func child(value []byte, name string) (found []byte) {
	switch value[0] {
	case '{':
		return jsonscan.Member(value, name)
	case '[':
		left, err := strconv.Atoi(name)
		if err != nil || left < 0 {
			return nil
		}
		jsonscan.EachItem(value, func(item []byte) bool {
			if left == 0 {
				found = item
			}
			left--
			return left >= 0
		})
	}
	return found
}
