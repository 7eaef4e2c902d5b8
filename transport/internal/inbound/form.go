package inbound

import (
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
)

// A form's schema is a flat object of plain values (MCP, elicitation, "Requested
// Schema"). The go-sdk looks at little of it and gives all of it to a validator
// that follows references wherever they lead: one that leads to itself overflows
// the stack, which cannot be recovered, and a page of them takes practically
// for ever. So nothing passes here but the words of the flat form, which
// refer to nothing and nest to a fixed depth.

const (
	// formEntries is how many fields, options and other entries of lists a form
	// may have altogether. All countries and all time zones are some 900.
	formEntries = 4096
	// formText bounds one text of a form, in bytes, formDefault one that is filled
	// in, and formPattern one regular expression.
	formText = 64 << 10
	// MaxFormDefault bounds a text that is filled in beforehand, in bytes.
	MaxFormDefault = 2 << 10
	formPattern    = 1 << 10
	// formSteps bounds the regular expressions of a form, in instructions of their
	// programs. Matching takes that many steps for each character.
	formSteps = 5000
)

// form is the account of one form.
type form struct{ entries, steps int }

// fieldRules are what may stand in an object, and how the value of each is checked.
type fieldRules map[string]func(*form, any) error

var (
	formRoot = fieldRules{
		"$schema": (*form).text, "$comment": (*form).text, "type": (*form).text, "title": (*form).text, "description": (*form).text,
		"required": (*form).list, "additionalProperties": isBool,
		"properties": func(f *form, v any) error { return f.each(v, formField) },
	}
	formField = fieldRules{
		"$comment": (*form).text, "type": (*form).text, "title": (*form).text, "description": (*form).text, "format": (*form).text,
		"minLength": isNumber, "maxLength": isNumber, "minimum": isNumber, "maximum": isNumber,
		"exclusiveMinimum": isNumber, "exclusiveMaximum": isNumber, "multipleOf": isNumber, "minItems": isNumber, "maxItems": isNumber,
		"uniqueItems": isBool, "readOnly": isBool, "writeOnly": isBool, "deprecated": isBool,
		"pattern": (*form).pattern, "default": (*form).preset,
		"enum": (*form).list, "enumNames": (*form).list, "examples": (*form).list,
		"oneOf": (*form).options, "anyOf": (*form).options,
		"items": func(f *form, v any) error { return f.object(v, formItems) },
	}
	formItems = fieldRules{
		"type": (*form).text, "title": (*form).text, "description": (*form).text,
		"enum": (*form).list, "enumNames": (*form).list, "oneOf": (*form).options, "anyOf": (*form).options,
	}
	formOption = fieldRules{
		"const": (*form).plain, "title": (*form).text, "description": (*form).text, "type": (*form).text, "enum": (*form).list,
	}
)

// CheckForm refuses a schema that is no flat form, or a form that no person
// would fill in.
func CheckForm(schema any) error {
	if schema == nil {
		return nil
	}
	return (&form{entries: formEntries, steps: formSteps}).object(schema, formRoot)
}

// object checks an object. Words that begin with x- are extensions, and mean
// nothing to the validator.
func (f *form) object(value any, allowed fieldRules) error {
	object, ok := value.(map[string]any)
	if !ok {
		return errors.New("no object")
	}
	for _, word := range slices.Sorted(maps.Keys(object)) {
		check := allowed[word]
		switch {
		case check != nil:
			if err := check(f, object[word]); err != nil {
				return fmt.Errorf("%s: %w", word, err)
			}
		case !strings.HasPrefix(word, "x-"):
			return fmt.Errorf("a form does not have the word %.40q there", word)
		}
	}
	return nil
}

// each checks the fields of a form, whose names are the server's.
func (f *form) each(value any, allowed fieldRules) error {
	object, ok := value.(map[string]any)
	if !ok {
		return errors.New("no object")
	}
	for name, field := range object {
		err := f.entry()
		if err == nil {
			err = f.object(field, allowed)
		}
		if err != nil {
			return fmt.Errorf("%.40q: %w", name, err)
		}
	}
	return nil
}

func (f *form) options(value any) error {
	return f.eachOf(value, func(f *form, v any) error { return f.object(v, formOption) })
}

func (f *form) list(value any) error { return f.eachOf(value, (*form).plain) }

func (f *form) eachOf(value any, check func(*form, any) error) error {
	list, ok := value.([]any)
	if !ok {
		return errors.New("no list")
	}
	for _, v := range list {
		if err := errors.Join(f.entry(), check(f, v)); err != nil {
			return err
		}
	}
	return nil
}

// entry counts one.
func (f *form) entry() error {
	if f.entries--; f.entries < 0 {
		return fmt.Errorf("a form has more than %d fields and options", formEntries)
	}
	return nil
}

func (f *form) plain(value any) error {
	switch v := value.(type) {
	case string:
		return f.text(v)
	case float64, bool, nil:
		return nil
	}
	return errors.New("no plain value")
}

func (f *form) text(value any) error { return isText(value, formText) }

// preset checks a default, which is held against the rest of its field when the
// answer comes without it.
func (f *form) preset(value any) error {
	switch v := value.(type) {
	case string:
		return isText(v, MaxFormDefault)
	case []any:
		return f.list(v)
	}
	return f.plain(value)
}

func (f *form) pattern(value any) error {
	if err := isText(value, formPattern); err != nil {
		return err
	}
	expr, err := syntax.Parse(value.(string), syntax.Perl)
	if err != nil {
		return err
	}
	program, err := syntax.Compile(expr.Simplify())
	if err != nil {
		return err
	}
	if f.steps -= len(program.Inst); f.steps < 0 {
		return errors.New("too much to match")
	}
	return nil
}

func isText(value any, most int) error {
	text, ok := value.(string)
	switch {
	case !ok:
		return errors.New("no text")
	case len(text) > most:
		return fmt.Errorf("longer than %d bytes", most)
	}
	return nil
}

func isNumber(_ *form, value any) error {
	if _, ok := value.(float64); !ok {
		return errors.New("no number")
	}
	return nil
}

func isBool(_ *form, value any) error {
	if _, ok := value.(bool); !ok {
		return errors.New("neither true nor false")
	}
	return nil
}
