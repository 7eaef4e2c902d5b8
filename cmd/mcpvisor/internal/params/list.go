// Package params is about the parameters of a tool, as its input schema declares them. It
// lists them for a table, makes arguments of the words of a command line, and checks
// arguments before they are sent.
//
// Schemas come from servers. What cannot be read in one is left out: a server with an odd
// schema can be called anyway. References are followed within the schema only.
package params

import (
	"encoding/json"
	"slices"
	"strings"
)

// Param is one parameter of a tool, or one field of a parameter that is an object.
type Param struct {
	Name string
	// Type is "string", "integer[]", "string or null"; "any" if the schema does not say.
	Type     string
	Required bool
	// Default is JSON text; nil without a default.
	Default json.RawMessage
	// Enum are the only values that are allowed, as JSON text; nil without such a list.
	Enum []json.RawMessage
	// Titles are what the user sees instead of Enum, in its order; nil if the schema has
	// none.
	Titles      []string
	Description string
	// Format is a format of texts such as "email"; empty if the schema names none.
	Format string
	// Fields are those of an object, or of the objects of an array. A field has none.
	Fields []Param

	schema *schema
	within []byte // the whole schema, which has the parameter as a property
}

// List is the parameters of one tool.
type List struct {
	// Params are in the order of the server.
	Params []Param
	root   *schema
	text   []byte
}

// New reads the input schema of a tool.
func New(inputSchema []byte) List {
	root := newSchema(inputSchema)
	all := paramsOf(root.fields(), 1)
	for i := range all {
		all[i].within = inputSchema
	}
	return List{Params: all, root: root, text: inputSchema}
}

// paramsOf returns the parameters of an object, with levels of fields.
func paramsOf(s *schema, levels int) (all []Param) {
	required := s.required()
	for _, p := range s.properties() {
		one := Param{Name: p.name, Type: typeText(p.schema), Required: slices.Contains(required, p.name),
			Default: p.schema.members["default"], Enum: p.schema.allowed(), Format: p.schema.text("format"), schema: p.schema}
		if one.Description = p.schema.text("description"); one.Description == "" {
			one.Description = p.schema.text("title")
		}
		items := p.schema.items()
		one.Titles = p.schema.titles()
		if one.Enum == nil {
			one.Enum, one.Titles = items.allowed(), items.titles()
		}
		if len(one.Titles) != len(one.Enum) {
			one.Titles = nil
		}
		if levels > 0 {
			if one.Fields = paramsOf(p.schema.fields(), levels-1); len(one.Fields) == 0 {
				one.Fields = paramsOf(items.fields(), levels-1)
			}
		}
		all = append(all, one)
	}
	for _, name := range required { // it may have no property
		if !slices.ContainsFunc(all, func(p Param) bool { return p.Name == name }) {
			all = append(all, Param{Name: name, Type: "any", Required: true, schema: new(schema)})
		}
	}
	return all
}

func typeText(s *schema) string {
	names, nullable := s.types()
	if len(names) == 0 {
		names = enumTypes(s.allowed())
	}
	text := make([]string, 0, len(names)+1)
	for _, name := range names {
		if name == "array" {
			if items := typeText(s.items()); items != "any" && !strings.Contains(items, " ") {
				name = items + "[]"
			}
		}
		text = append(text, name)
	}
	switch {
	case len(text) == 0:
		return "any"
	case nullable:
		text = append(text, "null")
	}
	return strings.Join(text, " or ")
}

func enumTypes(values []json.RawMessage) (names []string) {
	for _, value := range values {
		if name := typeOf(value); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (l List) Names() (names []string) {
	for _, p := range l.Params {
		names = append(names, p.Name)
	}
	return names
}

// Required returns the names of the parameters that a call must have.
func (l List) Required() (names []string) {
	for _, p := range l.Params {
		if p.Required {
			names = append(names, p.Name)
		}
	}
	return names
}

func (l List) find(name string) (Param, bool) {
	i := slices.IndexFunc(l.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return Param{}, false
	}
	return l.Params[i], true
}
