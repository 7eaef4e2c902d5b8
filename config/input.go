package config

import (
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// inputVariablePrefix begins the name of the environment variable that answers
// an input: MCPVISOR_INPUT_API_KEY for ${input:api-key}.
const inputVariablePrefix = "MCPVISOR_INPUT_"

// Input is a value that a file leaves to the user: an element of VS Code's
// "inputs". An input that is used and not declared has only an ID.
type Input struct {
	// ID is the name in ${input:id}.
	ID string
	// Description is the question to the user. It may be empty.
	Description string
	// Default is the answer if the user gives none.
	Default string
	// Options are the answers to choose from. If empty, any text is accepted.
	Options []string
	// Password says that the answer must not be shown while it is typed. It becomes
	// one of the Secrets of the server whose entry uses it.
	Password bool
}

// Variable returns the name of the environment variable that answers the input:
// MCPVISOR_INPUT_ and the ID in capitals, with '_' for every character that
// is not a letter or digit of ASCII.
func (i Input) Variable() string {
	return inputVariablePrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, i.ID)
}

// answer is the value of an input, or why it has none.
type answer struct {
	value string
	err   error
}

// inputValue returns the answer to an input. It asks once for each id, even if
// the user does not answer.
func (p *parser) inputValue(id string) (string, error) {
	a, known := p.answers[id]
	if !known {
		a.value, a.err = p.answerInput(id)
		if p.answers == nil {
			p.answers = map[string]answer{}
		}
		p.answers[id] = a
	}
	if p.inputs[id].Password && a.err == nil {
		p.secrets = append(p.secrets, a.value)
	}
	return a.value, a.err
}

// answerInput takes the value of the variable, else the user's answer, else the
// default.
func (p *parser) answerInput(id string) (string, error) {
	input, declared := p.inputs[id]
	if !declared {
		input = Input{ID: id}
	}
	if value, set := p.lookup(input.Variable()); set {
		return value, nil
	}
	if p.ask != nil {
		value, err := p.ask(input)
		if err != nil {
			return "", fmt.Errorf("${input:%s} was not answered; answer it, or set %s: %w", id, input.Variable(), err)
		}
		return value, nil
	}
	if input.Default != "" {
		return input.Default, nil
	}
	return "", fmt.Errorf("${input:%s} needs an answer of the user; set %s, or run the command in a terminal", id, input.Variable())
}

// readInputs reads the declarations at the top of a file. A declaration that
// cannot be read is skipped, because an input needs none.
func (p *parser) readInputs(object *hujson.Object) {
	for i := range object.Members {
		m := &object.Members[i]
		list, ok := m.Value.Value.(*hujson.Array)
		if memberName(m) != "inputs" || !ok {
			continue
		}
		for j := range list.Elements {
			if declaration, ok := list.Elements[j].Value.(*hujson.Object); ok {
				p.readInput(declaration)
			}
		}
	}
}

func (p *parser) readInput(declaration *hujson.Object) {
	var input Input
	for i := range declaration.Members {
		m := &declaration.Members[i]
		text := func(into *string) {
			if lit, ok := literal(&m.Value, '"'); ok {
				*into = lit.String()
			}
		}
		switch memberName(m) {
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
	if p.inputs == nil {
		p.inputs = map[string]Input{}
	}
	p.inputs[input.ID] = input
}

// inputOptions reads the options of a pickString: texts, or objects with "value".
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
			if lit, ok := literal(&object.Members[j].Value, '"'); ok && memberName(&object.Members[j]) == "value" {
				options = append(options, lit.String())
			}
		}
	}
	return options
}
