package discovery

import (
	"bytes"
	"encoding/json"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// maxRepairDepth is how deep schemas are searched for what is to be repaired: each level is read once more.
const maxRepairDepth = 16

// repairSchemas returns an entry of tools/list in whose schemas each map that is an empty list is an empty object. PHP
// writes an empty map so, and a schema with it means nothing else. An entry without one is returned as it is.
func repairSchemas(item json.RawMessage) json.RawMessage {
	return jsonscan.Edit(item, func(key string, value []byte) []byte {
		if key == "inputSchema" || key == "outputSchema" {
			return repairSchema(value, 0)
		}
		return value
	})
}

// repairSchema repairs one schema and those in it.
func repairSchema(schema []byte, depth int) []byte {
	if depth > maxRepairDepth || schema[0] != '{' || !bytes.Contains(schema, []byte("[]")) {
		return schema
	}
	each := func(value []byte) []byte {
		return jsonscan.Edit(value, func(_ string, inner []byte) []byte { return repairSchema(inner, depth+1) })
	}
	return jsonscan.Edit(schema, func(keyword string, value []byte) []byte {
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			if string(value) == "[]" {
				return []byte("{}")
			}
			if value[0] == '{' {
				return each(value)
			}
		case "items", "additionalProperties":
			return repairSchema(value, depth+1)
		case "anyOf", "allOf", "oneOf":
			if value[0] == '[' {
				return each(value)
			}
		}
		return value
	})
}
