package inbound

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/pattern"
)

// The schema of a form is a flat object with primitive fields (MCP, elicitation, "Requested
// Schema"). A host may pass it to a JSON Schema validator that follows references: a reference
// to itself overflows its stack, which cannot be recovered, and nested references can take
// hours. So this file accepts only the keywords of the flat form. They cannot refer to
// anything, and they nest to a fixed depth.

const (
	// formEntries bounds the fields, options and other list entries of one form together.
	// For comparison: all countries and time zones are about 900.
	formEntries = 4096
	// formText bounds one text of a form, in bytes.
	formText = 64 << 10
	// MaxFormDefault bounds the default of a text field, in bytes.
	MaxFormDefault = 2 << 10
	// formSteps bounds all regular expressions of one form together, in the steps of
	// package pattern: the instructions of their compiled programs, and what their text
	// costs to read.
	formSteps = 5000
	// patternBytesPerStep is how much of the text of a regular expression is one step.
	patternBytesPerStep = 16
)

// formChecker checks one form. Its fields are what is left of formEntries and formSteps.
type formChecker struct{ entries, steps int }

// fieldRules are what may stand in an object, and how the value of each is checked.
type fieldRules map[string]func(*formChecker, any) error

var (
	formRoot = fieldRules{
		"$schema": (*formChecker).checkText, "$comment": (*formChecker).checkText, "type": checkRootType, "title": (*formChecker).checkText, "description": (*formChecker).checkText,
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

// CheckForm returns why a schema is not a flat form or exceeds the limits of a form; nil if
// it may be used. A missing schema is valid.
func CheckForm(schema any) error {
	if schema == nil {
		return nil
	}
	return (&formChecker{entries: formEntries, steps: formSteps}).checkObject(schema, formRoot)
}

// checkObject checks an object with fixed keywords. Keywords that begin with x- are
// extensions, which the validator ignores.
func (f *formChecker) checkObject(value any, allowed fieldRules) error {
	object, ok := value.(map[string]any)
	if !ok {
		return errors.New("not an object")
	}
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		check := allowed[keyword]
		switch {
		case check != nil:
			if err := check(f, object[keyword]); err != nil {
				return fmt.Errorf("%s: %w", keyword, err)
			}
		case !strings.HasPrefix(keyword, "x-"):
			return fmt.Errorf("the keyword %.40q is not allowed here in the schema of a form", keyword)
		}
	}
	return nil
}

// checkFields checks an object whose names the server chooses: the fields of a form.
func (f *formChecker) checkFields(value any, allowed fieldRules) error {
	object, ok := value.(map[string]any)
	if !ok {
		return errors.New("not an object")
	}
	for name, field := range object {
		err := f.countEntry()
		if err == nil {
			err = f.checkObject(field, allowed)
		}
		if err == nil {
			err = checkField(field.(map[string]any)) //nolint:forcetypeassert // checkObject has checked it
		}
		if err != nil {
			return fmt.Errorf("%.40q: %w", name, err)
		}
	}
	return nil
}

// checkOptions checks the titled options of a choice.
func (f *formChecker) checkOptions(value any) error {
	return f.checkEntries(value, func(f *formChecker, v any) error { return f.checkObject(v, formOption) })
}

// checkList checks an array of primitive values.
func (f *formChecker) checkList(value any) error {
	return f.checkEntries(value, (*formChecker).checkPrimitive)
}

// checkEntries checks and counts the entries of an array.
func (f *formChecker) checkEntries(value any, check func(*formChecker, any) error) error {
	list, ok := value.([]any)
	if !ok {
		return errors.New("not an array")
	}
	for _, v := range list {
		if err := errors.Join(f.countEntry(), check(f, v)); err != nil {
			return err
		}
	}
	return nil
}

// countEntry counts a field or list entry against formEntries.
func (f *formChecker) countEntry() error {
	if f.entries--; f.entries < 0 {
		return fmt.Errorf("a form has more than %d fields and options", formEntries)
	}
	return nil
}

// checkPrimitive checks a value that is not an object or array.
func (f *formChecker) checkPrimitive(value any) error {
	switch v := value.(type) {
	case string:
		return f.checkText(v)
	case float64, bool, nil:
		return nil
	}
	return errors.New("not a string, number, boolean or null")
}

func (f *formChecker) checkText(value any) error { return checkTextLength(value, formText) }

// checkDefault checks the default of a field, which the answer gets if it leaves the field out.
func (f *formChecker) checkDefault(value any) error {
	switch v := value.(type) {
	case string:
		return checkTextLength(v, MaxFormDefault)
	case []any:
		return f.checkList(v)
	}
	return f.checkPrimitive(value)
}

// checkPattern checks a regular expression and counts it against formSteps. It is not
// compiled: checkContent does that, with the answer of the user.
func (f *formChecker) checkPattern(value any) error {
	text, ok := value.(string)
	if !ok {
		return errors.New("not a string")
	}
	f.steps -= len(text) / patternBytesPerStep
	n, err := pattern.Steps(text, max(f.steps, 0))
	f.steps -= n
	return err
}

// checkTextLength returns why value is not a string within the limit most, in bytes.
func checkTextLength(value any, most int) error {
	text, ok := value.(string)
	switch {
	case !ok:
		return errors.New("not a string")
	case len(text) > most:
		return fmt.Errorf("longer than %d bytes", most)
	}
	return nil
}

func checkNumber(_ *formChecker, value any) error {
	if _, ok := value.(float64); !ok {
		return errors.New("not a number")
	}
	return nil
}

func checkRootType(_ *formChecker, value any) error {
	if value != "object" {
		return errors.New("not object")
	}
	return nil
}

func checkBool(_ *formChecker, value any) error {
	if _, ok := value.(bool); !ok {
		return errors.New("not a boolean")
	}
	return nil
}
