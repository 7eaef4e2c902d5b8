package table

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/params"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// Tool is one tool of a list, as --json prints it. Its schema is as the server sent it, so that
// the order of the parameters is that of the server.
type Tool struct {
	Name       string `json:"name"`
	Server     string `json:"server"`
	Definition struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations *Annotations    `json:"annotations"`
	} `json:"definition"`
}

// Annotations are what a server says about a tool. nil means that it does not say.
type Annotations struct {
	Title       string `json:"title"`
	ReadOnly    *bool  `json:"readOnlyHint"`
	Destructive *bool  `json:"destructiveHint"`
	Idempotent  *bool  `json:"idempotentHint"`
	OpenWorld   *bool  `json:"openWorldHint"`
}

// ParseTools reads a list of tools.
func ParseTools(data []byte) ([]Tool, error) {
	var list struct {
		Tools []Tool `json:"tools"`
	}
	err := json.Unmarshal(data, &list)
	return list.Tools, err
}

// PrintTool prints one tool: its name and annotations, its description, its parameters, and
// how to call it.
func PrintTool(out io.Writer, t Tool) error {
	headline := display.Line(t.Name)
	if hints := t.hints(); hints != "" {
		headline += "  (" + hints + ")"
	}
	fmt.Fprintln(out, headline)
	for _, text := range []string{t.title(), strings.TrimSpace(t.Definition.Description)} {
		if text != "" {
			fmt.Fprintln(out, indent(display.Text(text)))
		}
	}
	list := params.New(t.Definition.InputSchema)
	if len(list.Params) == 0 {
		_, err := fmt.Fprintln(out, "  no parameters")
		return err
	}
	var text strings.Builder
	if err := PrintParams(&text, list); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s\n  example: mcpvisor call %s%s\n", indent(text.String()), plaintext.ShellWord(display.Line(t.Name)), exampleOf(list))
	return err
}

// title returns the title of a tool; empty if it says no more than the name.
func (t *Tool) title() string {
	title := t.Definition.Title
	if title == "" && t.Definition.Annotations != nil {
		title = t.Definition.Annotations.Title
	}
	_, own, _ := mcpvisor.SplitName(t.Name)
	if title == own {
		return ""
	}
	return display.Line(title)
}

// hints describes the annotations of a tool.
func (t *Tool) hints() string {
	a := t.Definition.Annotations
	if a == nil {
		return ""
	}
	var hints []string
	for _, h := range []struct {
		hint    *bool
		yes, no string
	}{
		{a.ReadOnly, "read-only", ""}, {a.Destructive, "destructive", "not destructive"},
		{a.Idempotent, "idempotent", ""}, {a.OpenWorld, "open world", "closed world"},
	} {
		switch {
		case h.hint == nil:
		case *h.hint:
			hints = append(hints, h.yes)
		case h.no != "":
			hints = append(hints, h.no)
		}
	}
	return strings.Join(hints, ", ")
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}

// exampleOf returns the words that set the required parameters. A name that would be a flag is left out.
func exampleOf(list params.List) (words string) {
	for _, p := range list.Params {
		if p.Required && !strings.HasPrefix(p.Name, "-") {
			words += " " + p.Example()
		}
	}
	return words
}

// PrintParams prints a table of parameters. The fields of an object are below it.
func PrintParams(out io.Writer, list params.List) error {
	var rows [][]any
	add := func(p params.Param) {
		required, value := "no", "-"
		if p.Required {
			required = "yes"
		}
		if p.Default != nil {
			value = string(p.Default)
		}
		about := p.Description
		if p.Format != "" {
			about = joined("format "+p.Format, about)
		}
		if len(p.Enum) > 0 {
			about = joined("one of "+params.Values(p.Enum), about)
		}
		rows = append(rows, []any{display.Line(p.Name), p.Type, required, value, about})
	}
	for _, p := range list.Params {
		add(p)
		for _, field := range p.Fields {
			add(field)
		}
	}
	return Write(out, false, []string{"PARAMETER", "TYPE", "REQUIRED", "DEFAULT", "DESCRIPTION"}, rows)
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
