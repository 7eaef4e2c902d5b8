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

// formChecker is the account of one form.
type formChecker struct{ entries, steps int }

// fieldRules are what may stand in an object, and how the value of each is checked.
type fieldRules map[string]func(*formChecker, any) error

var (
	formRoot = fieldRules{
		"$schema": (*formChecker).checkText, "$comment": (*formChecker).checkText, "type": (*formChecker).checkText, "title": (*formChecker).checkText, "description": (*formChecker).checkText,
		"required": (*formChecker).checkList, "additionalProperties": checkBool,
		"properties": func(f *formChecker, v any) error { return f.checkFields(v, formField) },
	}
	formField = fieldRules{
		"$comment": (*formChecker).checkText, "type": (*formChecker).checkText, "title": (*formChecker).checkText, "description": (*formChecker).checkText, "format": (*formChecker).checkText,
		"minLength": checkNumber, "maxLength": checkNumber, "minimum": checkNumber, "maximum": checkNumber,
		"exclusiveMinimum": checkNumber, "exclusiveMaximum": checkNumber, "multipleOf": checkNumber, "minItems": checkNumber, "maxItems": checkNumber,
		"uniqueItems": checkBool, "readOnly": checkBool, "writeOnly": checkBool, "deprecated": checkBool,
		"pattern": (*formChecker).checkPattern, "default": (*formChecker).checkDefault,
		"enum": (*formChecker).checkList, "enumNames": (*formChecker).checkList, "examples": (*formChecker).checkList,
		"oneOf": (*formChecker).checkOptions, "anyOf": (*formChecker).checkOptions,
		"items": func(f *formChecker, v any) error { return f.checkObject(v, formItems) },
	}
	formItems = fieldRules{
		"type": (*formChecker).checkText, "title": (*formChecker).checkText, "description": (*formChecker).checkText,
		"enum": (*formChecker).checkList, "enumNames": (*formChecker).checkList, "oneOf": (*formChecker).checkOptions, "anyOf": (*formChecker).checkOptions,
	}
	formOption = fieldRules{
		"const": (*formChecker).checkPrimitive, "title": (*formChecker).checkText, "description": (*formChecker).checkText, "type": (*formChecker).checkText, "enum": (*formChecker).checkList,
	}
)

// CheckForm refuses a schema that is no flat form, or a form that no person
// would fill in.
func CheckForm(schema any) error {
	if schema == nil {
		return nil
	}
	return (&formChecker{entries: formEntries, steps: formSteps}).checkObject(schema, formRoot)
}

// checkObject checks an object. Words that begin with x- are extensions, and mean
// nothing to the validator.
func (f *formChecker) checkObject(value any, allowed fieldRules) error {
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

// checkFields checks the fields of a form, whose names are the server's.
func (f *formChecker) checkFields(value any, allowed fieldRules) error {
	object, ok := value.(map[string]any)
	if !ok {
		return errors.New("no object")
	}
	for name, field := range object {
		err := f.countEntry()
		if err == nil {
			err = f.checkObject(field, allowed)
		}
		if err != nil {
			return fmt.Errorf("%.40q: %w", name, err)
		}
	}
	return nil
}

func (f *formChecker) checkOptions(value any) error {
	return f.checkEntries(value, func(f *formChecker, v any) error { return f.checkObject(v, formOption) })
}

func (f *formChecker) checkList(value any) error {
	return f.checkEntries(value, (*formChecker).checkPrimitive)
}

func (f *formChecker) checkEntries(value any, check func(*formChecker, any) error) error {
	list, ok := value.([]any)
	if !ok {
		return errors.New("no list")
	}
	for _, v := range list {
		if err := errors.Join(f.countEntry(), check(f, v)); err != nil {
			return err
		}
	}
	return nil
}

// countEntry counts one.
func (f *formChecker) countEntry() error {
	if f.entries--; f.entries < 0 {
		return fmt.Errorf("a form has more than %d fields and options", formEntries)
	}
	return nil
}

func (f *formChecker) checkPrimitive(value any) error {
	switch v := value.(type) {
	case string:
		return f.checkText(v)
	case float64, bool, nil:
		return nil
	}
	return errors.New("no plain value")
}

func (f *formChecker) checkText(value any) error { return checkTextLength(value, formText) }

// checkDefault checks a default, which is held against the rest of its field when the
// answer comes without it.
func (f *formChecker) checkDefault(value any) error {
	switch v := value.(type) {
	case string:
		return checkTextLength(v, MaxFormDefault)
	case []any:
		return f.checkList(v)
	}
	return f.checkPrimitive(value)
}

func (f *formChecker) checkPattern(value any) error {
	if err := checkTextLength(value, formPattern); err != nil {
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

func checkTextLength(value any, most int) error {
	text, ok := value.(string)
	switch {
	case !ok:
		return errors.New("no text")
	case len(text) > most:
		return fmt.Errorf("longer than %d bytes", most)
	}
	return nil
}

func checkNumber(_ *formChecker, value any) error {
	if _, ok := value.(float64); !ok {
		return errors.New("no number")
	}
	return nil
}

func checkBool(_ *formChecker, value any) error {
	if _, ok := value.(bool); !ok {
		return errors.New("neither true nor false")
	}
	return nil
}
