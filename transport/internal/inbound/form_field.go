package inbound

import (
	"errors"
	"fmt"
	"slices"
)

// The rules of a field by its type (MCP, elicitation, "Supported Schema Types"). A form that no answer fits is refused
// before the user sees it.

var (
	fieldTypes  = []string{"string", "number", "integer", "boolean", "array"}
	textFormats = []string{"email", "uri", "date", "date-time"}
)

// checkField checks a field whose keywords have values of the right types.
func checkField(field map[string]any) error {
	switch kind, _ := field["type"].(string); kind {
	case "string":
		return checkTextField(field)
	case "number", "integer":
		return errors.Join(checkRange(field, "minimum", "maximum"), checkDefaultType[float64](field, "a number"))
	case "boolean":
		return checkDefaultType[bool](field, "a boolean")
	case "array":
		return checkChoices(field)
	default:
		return fmt.Errorf("unsupported type %.40q; it is one of %q", kind, fieldTypes)
	}
}

func checkTextField(field map[string]any) error {
	if format, ok := field["format"].(string); ok && !slices.Contains(textFormats, format) {
		return fmt.Errorf("unsupported format %.40q; it is one of %q", format, textFormats)
	}
	values, _ := field["enum"].([]any)
	if names, ok := field["enumNames"].([]any); ok && len(values) > 0 && len(names) != len(values) {
		return fmt.Errorf("%d values of enum have %d enumNames", len(values), len(names))
	}
	if least, ok := field["minLength"].(float64); ok && least < 0 {
		return errors.New("minLength is negative")
	}
	if most, ok := field["maxLength"].(float64); ok && most < 0 {
		return errors.New("maxLength is negative")
	}
	return errors.Join(checkRange(field, "minLength", "maxLength"), checkTitled(field["oneOf"]), checkDefaultType[string](field, "a string"))
}

// checkChoices checks a field of which the user chooses several values.
func checkChoices(field map[string]any) error {
	items, _ := field["items"].(map[string]any)
	titled, _ := items["anyOf"].([]any)
	switch kind := items["type"]; {
	case kind == "string" && items["enum"] != nil:
		return nil
	case kind == nil && len(titled) > 0:
		return checkTitled(items["anyOf"])
	}
	return errors.New("the items of an array are strings with enum, or have anyOf with const and title")
}

// checkTitled checks the options of a choice, if there are any: a text and its title.
func checkTitled(options any) error {
	list, _ := options.([]any)
	for _, option := range list {
		o, _ := option.(map[string]any)
		value, _ := o["const"].(string)
		if title, _ := o["title"].(string); value == "" || title == "" {
			return errors.New("an option lacks a const, which is a text, or a title")
		}
	}
	return nil
}

func checkRange(field map[string]any, low, high string) error {
	least, bounded := field[low].(float64)
	if most, ok := field[high].(float64); ok && bounded && most < least {
		return fmt.Errorf("%s is less than %s", high, low)
	}
	return nil
}

// checkDefaultType checks that the default, if there is one, is a T.
func checkDefaultType[T any](field map[string]any, what string) error {
	if value := field["default"]; value != nil {
		if _, ok := value.(T); !ok {
			return fmt.Errorf("the default is not %s", what)
		}
	}
	return nil
}
