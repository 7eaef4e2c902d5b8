package argcheck

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// Violation says which argument breaks which rule.
type Violation struct {
	// Path is the argument, as in "filters[0].name"; "" is all arguments together.
	Path string
	// Rule is the keyword of JSON Schema, as in "type".
	Rule string
	// Reason is what is wrong, as in "must be an integer". It contains no values of
	// arguments: they may be secret.
	Reason string
	// Found is the type of the value if that breaks the rule, as in "a string".
	Found string
	// Value is the JSON text of the value if it breaks the rule; nil if it is too long, or
	// if the rule is about names or lengths.
	Value []byte
	// Similar are names of parameters that an unknown name may mean.
	Similar []string
}

const (
	// maxNameBytes bounds a name in a path: the caller may have made it up.
	maxNameBytes = 100
	// maxListedBytes bounds the values of an enum in a reason.
	maxListedBytes = 200
	// maxValueBytes bounds Violation.Value.
	maxValueBytes = 200
)

// violations words the problems. What is not known for certain is no problem.
func (c *check) violations() []Violation {
	if c.stopped || len(c.problems) == 0 {
		return nil
	}
	c.ctx, c.steps, c.nextLook = context.Background(), maxSteps/4, 0 // the words have a budget of their own
	var all []Violation
	for _, p := range c.problems[:min(len(c.problems), c.most)] {
		all = append(all, c.violation(p))
	}
	if c.stopped {
		return nil
	}
	return all
}

func (c *check) violation(p problem) Violation {
	v := Violation{Path: c.path(p.value), Rule: p.rule, Reason: c.reason(p)}
	switch p.rule {
	case "":
		v.Rule = "schema"
	case "required":
		name := c.schema.String(p.name)
		v.Path = join(v.Path, name)
		if unknown := nearest.AmongSpellings(name, c.undeclaredNames(p.schema, p.value)); c.most == 1 && len(unknown) > 0 {
			v.Reason += fmt.Sprintf("; %q is not a parameter", shorten(unknown[0]))
			v.Similar = []string{strings.Clone(name)}
		}
	case "additionalProperties":
		name := c.args.String(p.name)
		v.Path = join(v.Path, name)
		for _, similar := range nearest.AmongSpellings(name, c.declaredNames(p.schema)) {
			v.Similar = append(v.Similar, strings.Clone(similar))
		}
	case "type":
		v.Found = withArticle(c.typeOf(p.value))
		fallthrough
	case "enum", "const", "pattern", "anyOf", "oneOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		if text := c.args.Text(p.value); len(text) <= maxValueBytes {
			v.Value = bytes.Clone(text)
		}
	}
	v.Path, v.Reason = display.Line(v.Path), display.Line(v.Reason)
	for i := range v.Similar {
		v.Similar[i] = display.Line(v.Similar[i])
	}
	return v
}

// bounds are the reasons of the rules that set a bound; %s is the bound.
var bounds = map[string]string{
	"minimum": "must be at least %s", "maximum": "must be at most %s", "multipleOf": "must be a multiple of %s",
	"exclusiveMinimum": "must be more than %s", "exclusiveMaximum": "must be less than %s",
	"minLength": "must have at least %s character", "maxLength": "must have at most %s character",
	"minItems": "must have at least %s item", "maxItems": "must have at most %s item",
}

// reason says which rule is broken.
func (c *check) reason(p problem) string {
	switch p.rule {
	case "":
		return "must not be there" // the schema false
	case "type", "enum", "const":
		return "must be " + c.oneOf([]problem{p})
	case "minLength", "maxLength", "minItems", "maxItems":
		limit, plural := c.literal(p), "s"
		if limit == "1" {
			plural = ""
		}
		return fmt.Sprintf(bounds[p.rule]+"%s, and has %d", limit, plural, p.count)
	case "pattern":
		return "must match " + strconv.Quote(shortenTo(c.schema.String(c.keyword(p.schema, p.rule)), maxListedBytes))
	case "required":
		return "is missing"
	case "additionalProperties":
		return "is not a parameter"
	case "anyOf", "oneOf":
		if p.parts != nil {
			return "must be " + c.oneOf(p.parts)
		}
		return fmt.Sprintf("must match one of the %d alternatives of the schema", p.count)
	}
	return fmt.Sprintf(bounds[p.rule], c.literal(p))
}

// literal returns the value of the keyword as the schema has it.
func (c *check) literal(p problem) string {
	return shorten(string(c.schema.Text(c.keyword(p.schema, p.rule))))
}

// oneOf lists the values and types that a value may have: problems of the rules type, enum
// and const.
func (c *check) oneOf(problems []problem) string {
	var values, types []string
	more, listed := 0, 0
	add := func(i int) {
		text := shortenTo(string(c.schema.Text(i)), maxListedBytes)
		if listed += len(text); listed > maxListedBytes && len(values) > 0 {
			more++
		} else if !slices.Contains(values, text) {
			values = append(values, text)
		}
	}
	for _, p := range problems {
		switch i := c.keyword(p.schema, p.rule); p.rule {
		case "const":
			add(i)
		case "enum":
			for e := range c.items(&c.schema, i) {
				add(e)
			}
		default:
			for name := range c.typeNames(i) {
				if text := withArticle(shorten(name)); !slices.Contains(types, text) && len(types) < maxTypes {
					types = append(types, text)
				}
			}
		}
	}
	switch {
	case len(values)+len(types) == 0:
		return "one of no values"
	case len(values) == 0:
		return strings.Join(types, " or ")
	}
	text := strings.Join(append(values, types...), ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(problems) == 1 && problems[0].rule == "const" {
		return text
	}
	return "one of " + text
}

// maxTypes bounds the types in a reason.
const maxTypes = 10

// withArticle returns a type as in "a string"; null has none.
func withArticle(name string) string {
	switch name {
	case "null":
		return name
	case "array", "integer", "object":
		return "an " + name
	}
	return "a " + name
}

// declaredNames iterates over the names in "properties" of a schema, each as a spelling of
// itself.
func (c *check) declaredNames(s int) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		properties := c.node(s, "properties", "{")
		if properties == 0 {
			return
		}
		for i := range c.names(&c.schema, properties) {
			if name := c.text(&c.schema, i); !yield(name, name) {
				return
			}
		}
	}
}

// undeclaredNames iterates over the names of an object that "properties" of its schema does
// not have.
func (c *check) undeclaredNames(s, v int) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		properties := c.node(s, "properties", "{")
		for i := range c.names(&c.args, v) {
			name := c.text(&c.args, i)
			if (properties == 0 || c.member(&c.schema, properties, name) == 0) && !yield(name, name) {
				return
			}
		}
	}
}

// path returns the name of a value, as in "filters[0].name".
func (c *check) path(v int) (at string) {
	i := 0
	for i != v {
		if c.args.First(i) == '[' {
			item, n := i+1, 0
			for ; c.args.Next(item) <= v; n++ {
				item = c.args.Next(item)
			}
			at, i = at+"["+strconv.Itoa(n)+"]", item
			continue
		}
		name := i + 1
		for c.args.Next(name+1) <= v {
			name = c.args.Next(name + 1)
		}
		at, i = join(at, c.args.String(name)), name+1
		if v == name {
			return at
		}
	}
	return at
}

func join(at, name string) string {
	if name = shorten(name); at == "" {
		return strings.Clone(name)
	}
	return at + "." + name
}

func shorten(text string) string { return shortenTo(text, maxNameBytes) }

func shortenTo(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
