// Package argcheck compares the arguments of a tool call with the tool's input schema.
//
// The schema comes from a server, which may be hostile, and the validator of
// google/jsonschema-go trusts it. So [Compile] accepts only schemas that refer to
// themselves alone, and rebuilds them from the keywords that it knows, so that what is left
// refuses nothing that the schema allows. [Schema.Check] first counts what the validator would do: a schema
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
	root     any  // as rebuilt by loosen, for the guard and for the words of errors
	divides  bool // multipleOf is used
}

// maxSchemaBytes bounds a schema that is used.
const maxSchemaBytes = 1 << 20

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
		return nil, errNotObject
	}
	rebuilt, divides, err := loosen(m)
	if err != nil {
		return nil, err
	}
	defer func() { // the validator trusts schemas
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the validator failed: %.200v", r)
		}
	}()
	text, err := json.Marshal(rebuilt)
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
	return &Schema{resolved: resolved, root: rebuilt, divides: divides}, nil
}

// Check compares arguments with the schema. It returns nil if they match, and if comparing
// them would take too long or needs integers that float64 does not hold. args is valid JSON.
func (s *Schema) Check(args []byte) (broken *Violation) {
	var instance any
	if json.Unmarshal(args, &instance) != nil {
		return nil
	}
	if s.divides && holdsLarge(instance) {
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
	d := diagnosis{root: s.root, patterns: map[string]*regexp.Regexp{}}
	if v := d.find(s.root, instance, "", 0); v != nil {
		return v
	}
	return &Violation{Rule: "schema", Reason: "they do not match the tool's input schema"}
}
