package discovery

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// maxRepairDepth is how deep schemas are searched for what is to be repaired: each level is read once more.
const maxRepairDepth = 16

// repairSchemas returns an entry of tools/list in whose schemas each map that is an empty list is an empty object. PHP
// writes an empty map so, and a schema with it means nothing else. An entry without one is returned as it is.
func repairSchemas(item json.RawMessage) (repaired json.RawMessage, changed bool) {
	if !bytes.Contains(item, []byte("[]")) {
		return item, false
	}
	return repairMembers(item, func(key string, value []byte) ([]byte, bool) {
		if key == "inputSchema" || key == "outputSchema" {
			return repairSchema(value, 0)
		}
		return value, false
	})
}

// repairSchema repairs one schema and those in it.
func repairSchema(schema []byte, depth int) (repaired []byte, changed bool) {
	if depth > maxRepairDepth || !bytes.Contains(schema, []byte("[]")) {
		return schema, false
	}
	return repairMembers(schema, func(keyword string, value []byte) ([]byte, bool) {
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			if string(value) == "[]" {
				return []byte("{}"), true
			}
			return repairMembers(value, func(_ string, member []byte) ([]byte, bool) { return repairSchema(member, depth+1) })
		case "items", "additionalProperties":
			return repairSchema(value, depth+1)
		case "anyOf", "allOf", "oneOf":
			var items [][]byte
			some := false
			jsonscan.EachItem(value, func(item []byte) bool {
				item, changed := repairSchema(item, depth+1)
				items, some = append(items, item), some || changed
				return true
			})
			if some {
				value = slices.Concat([]byte{'['}, bytes.Join(items, []byte{','}), []byte{']'})
			}
			return value, some
		}
		return value, false
	})
}

// repairMembers returns an object with each value as repair returns it; what is no object, and an object that repair does
// not change, as it is.
func repairMembers(object []byte, repair func(key string, value []byte) ([]byte, bool)) (repaired []byte, changed bool) {
	b := []byte{'{'}
	err := jsonscan.EachMember(object, func(key string, value []byte) error {
		value, one := repair(key, value)
		changed = changed || one
		if len(b) > 1 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(key) // a string always marshals
		b = append(append(append(b, name...), ':'), value...)
		return nil
	})
	if err != nil || !changed {
		return object, false
	}
	return append(b, '}'), true
}
