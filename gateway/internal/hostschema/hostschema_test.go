package hostschema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProblem(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40)
	many := `{"type":"object","anyOf":[` + strings.Repeat(`{},`, maxSchemas) + `{}]}`
	many2 := `{"type":"object","anyOf":[` // more references than are followed
	for i := range 5_000 {
		many2 += fmt.Sprintf(`{"$ref":"#/anyOf/%d"},`, i)
	}
	many2 += `{}]}`
	for schema, want := range map[string]string{
		`{"type":"object"}`: "",
		`{"type":"object","properties":{"a":{"type":["string","null"]},"b":true,"c":{"$ref":"#/$defs/c"}},"required":["a"],"$defs":{"c":{"enum":[1]}}}`: "",
		`{"type":"object","properties":{"type":{"type":"string"},"$ref":{"type":"string"}},"default":{"$ref":"file:///x","type":1}}`:                    "",
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`: "",
		`{}`:                                     `has no "type": "object" at its top`,
		`{"type":"string"}`:                      `has no "type": "object" at its top`,
		`{"type":["object"]}`:                    `has no "type": "object" at its top`,
		`{"properties":{"a":{"type":"object"}}}`: `has no "type": "object" at its top`,
		`[]`:                                     "is not an object",
		`null`:                                   "is not an object",
		`{"type":"object",}`:                     "is no JSON, or nested deeper than 64 levels",
		deep:                                     "is no JSON, or nested deeper than 64 levels",
		many:                                     "has more than 10000 schemas",
		`{"type":"objekt"}`:                      `has the unknown type "objekt"`,
		`{"type":"object","type":"string"}`:      `has "type" twice in one object`,
		`{"type":"object","properties":[]}`:      "has a list as properties; it must be an object",
		`{"type":"object","properties":{"a":"string"}}`:                                                                                "has a text in place of a schema",
		`{"type":"object","properties":{"a":{"type":"any"}}}`:                                                                          `has the unknown type "any"`,
		`{"type":"object","required":true}`:                                                                                            "has required that is no list of names",
		`{"type":"object","required":[1]}`:                                                                                             "has required that is no list of names",
		`{"type":"object","properties":{"a":{"enum":{}}}}`:                                                                             "has an enum that is no list",
		`{"type":"object","anyOf":{}}`:                                                                                                 "has an object as anyOf; it must be a list",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`:                                                           `refers to "file:///etc/passwd"; references must stay in the schema`,
		`{"type":"object","$ref":"https://example.com/schema.json"}`:                                                                   `refers to "https://example.com/schema.json"; references must stay in the schema`,
		`{"type":"object","items":[{"$ref":"other.json#/a"}]}`:                                                                         `refers to "other.json#/a"; references must stay in the schema`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/missing"}},"$defs":{}}`:                                                   `refers to "#/$defs/missing", which it does not have`,
		`{"type":"object","properties":{"a":{"$ref":"#/required/1"}},"required":["a"]}`:                                                `refers to "#/required/1", which it does not have`,
		`{"type":"object","properties":{"a":{"$ref":"#nowhere"}}}`:                                                                     `refers to "#nowhere", which it does not have`,
		`{"type":"object","properties":{"a":{"$ref":"#here"},"b":{"$anchor":"here"}}}`:                                                 "",
		`{"type":"object","properties":{"a/b%":{"anyOf":[{},{"$ref":"#/properties/c"}]},"c":{"$ref":"#/properties/a~1b%25/anyOf/0"}}}`: "",
		`{"type":"object","$defs":{"x":{"$id":"x","$ref":"#/$defs/y","$defs":{"y":{}}}}}`:                                              "",
		many2: "",
		`{"type":"object","description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`: "has 1048610 bytes, and 1048576 is the most",
	} {
		require.Equal(t, want, Problem([]byte(schema)), "%.200s", schema)
	}
}

func FuzzProblem(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#"}}}`))
	f.Fuzz(func(_ *testing.T, schema []byte) { Problem(schema) })
}
