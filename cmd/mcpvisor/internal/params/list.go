// Package params is about the parameters of a tool, as its input schema declares them. It
// lists them for a table, makes arguments of the words of a command line, and checks
// arguments before they are sent.
//
// Schemas come from servers. What cannot be read in one is left out: a server with an odd
// schema can be called anyway. References are followed within the schema only.
package params

import (
	"bytes"
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
	// Fields are those of an object, or of the objects of an array, with names as words have them. A field has none.
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
			within := p.name + "."
			if one.Fields = paramsOf(p.schema.fields(), levels-1); len(one.Fields) == 0 {
				one.Fields, within = paramsOf(items.fields(), levels-1), p.name+"[0]."
			}
			for i := range one.Fields {
				one.Fields[i].Name = within + one.Fields[i].Name
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

const (
	// maxReferences bounds the references that follow each other.
	maxReferences = 16
	// maxDepth bounds how deep schemas are nested, and maxRead how many bytes of schemas are
	// read in all, because references may lead back to where they are. What is beyond allows
	// everything.
	maxDepth = 32
	maxRead  = 4 << 20
)

// schema is one JSON schema of a tool. The zero value allows everything.
type schema struct {
	members map[string]json.RawMessage
	root    *root
	depth   int
}

// root is the whole schema of a tool, in which references begin.
type root struct {
	members map[string]json.RawMessage
	unread  int // how many bytes may still be read
}

// newSchema reads the schema of a tool. Text that is not an object allows everything.
func newSchema(text []byte) *schema {
	s := &schema{root: &root{unread: maxRead}}
	_ = json.Unmarshal(text, &s.root.members) // as the comment says
	return s.sub(text)
}

// sub returns a schema within s, with its references resolved.
func (s *schema) sub(text []byte) *schema {
	found := &schema{root: s.root, depth: s.depth + 1}
	if found.depth > maxDepth || s.root == nil {
		return found
	}
	for range maxReferences {
		if s.root.unread -= len(text) + 64; s.root.unread < 0 {
			return &schema{root: s.root, depth: maxDepth}
		}
		description, described := found.members["description"] // it is about the place, not about the type
		found.members = nil
		_ = json.Unmarshal(text, &found.members) // not an object: it allows everything
		if described && found.members != nil {
			found.members["description"] = description
		}
		target, ok := s.root.target(found.text("$ref"))
		if !ok {
			break
		}
		text = target
	}
	return found
}

// target returns what a reference such as "#/$defs/Mode" refers to.
func (r *root) target(reference string) (json.RawMessage, bool) {
	path, local := strings.CutPrefix(reference, "#/")
	if !local {
		return nil, false
	}
	members := r.members
	var found json.RawMessage
	for _, name := range strings.Split(path, "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		next, ok := members[name]
		if !ok {
			return nil, false
		}
		found, members = next, nil
		if r.unread -= len(next); r.unread < 0 {
			return nil, false
		}
		_ = json.Unmarshal(next, &members) // the last one need not be an object
	}
	return found, true
}

func (s *schema) text(name string) (text string) {
	_ = json.Unmarshal(s.members[name], &text) // empty if it is no text
	return text
}

func (s *schema) list(name string) (all []json.RawMessage) {
	_ = json.Unmarshal(s.members[name], &all)
	return all
}

func (s *schema) schemas(name string) (all []*schema) {
	for _, text := range s.list(name) {
		all = append(all, s.sub(text))
	}
	return all
}

// types returns the types that a value may have, without those of "null"; nil means any.
// nullable says whether it may be null, too.
func (s *schema) types() (names []string, nullable bool) {
	var one string
	if raw, ok := s.members["type"]; ok && json.Unmarshal(raw, &one) != nil {
		_ = json.Unmarshal(raw, &names)
	} else if one != "" {
		names = []string{one}
	}
	for _, branch := range slices.Concat(s.schemas("anyOf"), s.schemas("oneOf")) {
		more, null := branch.types()
		if len(more) == 0 && !null && len(branch.allowed()) == 0 {
			return nil, false // a branch that allows everything
		}
		nullable = nullable || null
		for _, name := range more {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	plain := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "null" })
	return plain, nullable || len(plain) < len(names)
}

// allowed returns the values of enum, or that of const, also those of branches; nil means
// any.
func (s *schema) allowed() (values []json.RawMessage) {
	if values = s.list("enum"); len(values) > 0 {
		return values
	}
	if value, ok := s.members["const"]; ok {
		return []json.RawMessage{value}
	}
	for _, branch := range slices.Concat(s.schemas("anyOf"), s.schemas("oneOf")) {
		more := branch.allowed()
		if names, null := branch.types(); len(more) == 0 && !(null && len(names) == 0) {
			return nil
		}
		values = append(values, more...)
	}
	return values
}

// titles returns the titles of the values that are allowed; fewer than these if some have
// none.
func (s *schema) titles() (titles []string) {
	for _, raw := range s.list("enumNames") {
		var title string
		_ = json.Unmarshal(raw, &title)
		titles = append(titles, title)
	}
	for _, branch := range slices.Concat(s.schemas("anyOf"), s.schemas("oneOf")) {
		if title := branch.text("title"); title != "" {
			titles = append(titles, title)
		}
	}
	return titles
}

// branches are the schemas of anyOf, oneOf and allOf.
func (s *schema) branches() []*schema {
	return slices.Concat(s.schemas("anyOf"), s.schemas("oneOf"), s.schemas("allOf"))
}

// items returns the schema of the items of a list: that of s, or that of the first branch that has one.
func (s *schema) items() *schema {
	for _, one := range append([]*schema{s}, s.branches()...) {
		if raw, ok := one.members["items"]; ok {
			return one.sub(raw)
		}
	}
	return new(schema)
}

// fields returns the schema whose properties describe the fields of an object: s, or the
// first branch that has properties.
func (s *schema) fields() *schema {
	if _, ok := s.members["properties"]; ok {
		return s
	}
	for _, branch := range s.branches() {
		if _, ok := branch.members["properties"]; ok {
			return branch
		}
	}
	return s
}

// isOpen reports whether an object may have members that the schema does not name. It may
// only if the schema says so, or says it in a way that is not read here: most servers ignore
// what they do not know, and a name that is misspelled has no effect there.
func (s *schema) isOpen() bool {
	if more, ok := s.members["additionalProperties"]; ok {
		return string(bytes.TrimSpace(more)) != "false"
	}
	for _, name := range []string{"patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas"} {
		if _, ok := s.members[name]; ok {
			return true
		}
	}
	return typeOf(s.members["properties"]) != "object"
}

type property struct {
	name   string
	schema *schema
}

// properties returns the properties in the order of the server.
func (s *schema) properties() (all []property) {
	d := json.NewDecoder(bytes.NewReader(s.members["properties"]))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return all
		}
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return all
		}
		if name, ok := name.(string); ok {
			all = append(all, property{name, s.sub(text)})
		}
	}
	return all
}

func (s *schema) required() (names []string) {
	for _, raw := range s.list("required") {
		var name string
		if json.Unmarshal(raw, &name) == nil {
			names = append(names, name)
		}
	}
	return names
}
