package config

import (
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// InputVariablePrefix begins the name of the environment variable that answers an
// input: MCPVISOR_INPUT_API_KEY for ${input:api-key}.
const InputVariablePrefix = "MCPVISOR_INPUT_"

// Input is a value that a file leaves to the user: an element of VS Code's
// "inputs". An input that is used and not declared has an ID only.
type Input struct {
	// ID is what ${input:id} names.
	ID string
	// Description is the question. It may be empty.
	Description string
	// Default is the answer if the user gives none.
	Default string
	// Options are the answers to choose from; none means any text.
	Options []string
	// Password says that the answer must not be shown while it is typed. It is one
	// of the Secrets of the server whose entry uses it.
	Password bool
}

// Variable is the environment variable that answers the input: [InputVariable]
// and the ID in capitals, with '_' for everything but letters and digits.
func (i Input) Variable() string {
	return InputVariablePrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, i.ID)
}

// answer is the value of an input, or the reason for its absence.
type answer struct {
	value string
	err   error
}

// inputValue finds the answer to an input, once for each id: the variable, the
// host, the default.
func (r *reader) inputValue(id string) (string, error) {
	a, known := r.answers[id]
	if !known {
		a.value, a.err = r.answerInput(id)
		if r.answers == nil {
			r.answers = map[string]answer{}
		}
		r.answers[id] = a
	}
	if r.inputs[id].Password && a.err == nil {
		r.secrets = append(r.secrets, a.value)
	}
	return a.value, a.err
}

func (r *reader) answerInput(id string) (string, error) {
	input, declared := r.inputs[id]
	if !declared {
		input = Input{ID: id}
	}
	if value, set := r.lookup(input.Variable()); set {
		return value, nil
	}
	if r.input != nil {
		value, err := r.input(input)
		if err != nil {
			return "", fmt.Errorf("${input:%s} was not answered; answer it, or set %s: %w", id, input.Variable(), err)
		}
		return value, nil
	}
	if input.Default != "" {
		return input.Default, nil
	}
	return "", fmt.Errorf("${input:%s} needs an answer of the user; set %s, or run it on a terminal", id, input.Variable())
}

// readInputs reads the declarations at the top of a file. What cannot be read is
// left out: an input needs no declaration.
func (r *reader) readInputs(object *hujson.Object) {
	for i := range object.Members {
		m := &object.Members[i]
		list, ok := m.Value.Value.(*hujson.Array)
		if name(m) != "inputs" || !ok {
			continue
		}
		for j := range list.Elements {
			if declared, ok := list.Elements[j].Value.(*hujson.Object); ok {
				r.readInput(declared)
			}
		}
	}
}

func (r *reader) readInput(declared *hujson.Object) {
	var input Input
	for i := range declared.Members {
		m := &declared.Members[i]
		text := func(into *string) {
			if lit, ok := literal(&m.Value, '"'); ok {
				*into = lit.String()
			}
		}
		switch name(m) {
		case "id":
			text(&input.ID)
		case "description":
			text(&input.Description)
		case "default":
			text(&input.Default)
		case "password":
			if lit, ok := literal(&m.Value, 't'); ok {
				input.Password = lit.Bool()
			}
		case "options":
			input.Options = inputOptions(&m.Value)
		}
	}
	if r.inputs == nil {
		r.inputs = map[string]Input{}
	}
	r.inputs[input.ID] = input
}

// inputOptions reads the options of a pickString: texts, or objects with a value.
func inputOptions(v *hujson.Value) (options []string) {
	list, _ := v.Value.(*hujson.Array)
	if list == nil {
		return nil
	}
	for i := range list.Elements {
		element := &list.Elements[i]
		if lit, ok := literal(element, '"'); ok {
			options = append(options, lit.String())
			continue
		}
		object, _ := element.Value.(*hujson.Object)
		if object == nil {
			continue
		}
		for j := range object.Members {
			if lit, ok := literal(&object.Members[j].Value, '"'); ok && name(&object.Members[j]) == "value" {
				options = append(options, lit.String())
			}
		}
	}
	return options
}
