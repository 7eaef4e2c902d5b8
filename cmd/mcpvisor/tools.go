package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/params"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

type toolsCmd struct {
	Name string `arg:"" optional:"" help:"Server, or tool as in fs/list_directory, or alias of a tool: show only these, with their parameters." placeholder:"SERVER[/TOOL]" complete:"target"`
}

// listedTool is one tool of a list. Its schema is as the server sent it, so that the order
// of the parameters is that of the server.
type listedTool struct {
	Name       string `json:"name"`
	Server     string `json:"server"`
	Definition struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
		Annotations *annotations    `json:"annotations"`
	} `json:"definition"`
}

// annotations are what a server says about a tool. nil means that it does not say.
type annotations struct {
	Title       string `json:"title"`
	ReadOnly    *bool  `json:"readOnlyHint"`
	Destructive *bool  `json:"destructiveHint"`
	Idempotent  *bool  `json:"idempotentHint"`
	OpenWorld   *bool  `json:"openWorldHint"`
}

func listedTools(data []byte) ([]listedTool, error) {
	var list struct {
		Tools []listedTool `json:"tools"`
	}
	err := json.Unmarshal(data, &list)
	return list.Tools, err
}

// Run implements kong's command.
func (cmd *toolsCmd) Run(inv *invocation) error {
	inv.askForms() // servers list the same tools as for call
	if cmd.Name != "" {
		return inv.describeTools(cmd.Name)
	}
	read := func(c *session, ctx context.Context) (json.RawMessage, error) {
		data, err := c.Tools(ctx, "")
		if err == nil {
			inv.rememberTools(data)
		}
		return data, err
	}
	return inv.list("TOOL\tDESCRIPTION", read, func(data []byte) (rows [][]any, err error) {
		tools, err := listedTools(data)
		for _, t := range tools {
			rows = append(rows, []any{t.Name, t.Definition.Description})
		}
		return rows, err
	})
}

// describeTools prints the tools of one server, or one tool, with their parameters.
func (inv *invocation) describeTools(name string) error {
	if !isToolName(name) {
		c, err := inv.openReady(name)
		if err != nil {
			return err
		}
		defer c.stop()
		data, err := c.Tools(inv.ctx, name)
		if err != nil {
			return err
		}
		return inv.printTools(data)
	}
	c, err := inv.openTool(name)
	if err != nil {
		return err
	}
	defer c.stop()
	data, err := c.Tool(inv.ctx, name)
	if err != nil {
		return err
	}
	if tools, err := listedTools(data); err != nil || len(tools) == 0 {
		return inv.unknownTool(c, name)
	}
	return inv.printTools(data)
}

// isToolName reports whether a name is that of a tool, and not of a server.
func isToolName(name string) bool {
	return strings.Contains(name, "/") || strings.HasPrefix(name, mcpvisor.AliasPrefix)
}

// openReady opens one server, which must become ready.
func (inv *invocation) openReady(name string) (*session, error) {
	c, err := inv.openServer(name)
	if err != nil || c.own != nil {
		return c, err
	}
	server, err := c.described(inv.ctx, name)
	if s := server.Status; err == nil && s.State != supervisor.StateReady {
		err = unavailableError(s, "server %s is %s: %s; mcpvisor status shows when it is ready", name, s.State, inv.reason(statusInConfigTerms(s)))
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// unknownTool is the error about a tool that no server lists.
func (inv *invocation) unknownTool(c *session, name string) error {
	server, _, qualified := mcpvisor.SplitName(name)
	if qualified && c.own == nil {
		if described, err := c.described(inv.ctx, server); err != nil || described.Status.State != supervisor.StateReady {
			if err != nil {
				return err
			}
			s := statusInConfigTerms(described.Status)
			return unavailableError(s, "server %s is %s: %s", server, s.State, inv.reason(s))
		}
	}
	data, err := c.Tools(inv.ctx, server)
	if err != nil {
		return err
	}
	tools, err := listedTools(data)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	text := fmt.Sprintf("there is no tool %q", name)
	if similar := nearest.Names(name, names); len(similar) > 0 {
		text += "; did you mean " + strings.Join(similar, " or ") + "?"
	} else {
		text += "; mcpvisor tools shows all tools"
	}
	return &exitError{exitUsage, errorReport{Kind: mcpvisor.KindUnknownTool, Outcome: mcpvisor.OutcomeNotSent, Server: server, Message: text}}
}

// printTools prints a list of tools, each with its parameters.
func (inv *invocation) printTools(data []byte) error {
	if inv.json {
		return printIndented(inv.out, data)
	}
	tools, err := listedTools(data)
	if err != nil {
		return err
	}
	for i, t := range tools {
		if i > 0 {
			fmt.Fprintln(inv.out)
		}
		if err := inv.printTool(t); err != nil {
			return err
		}
	}
	return nil
}

// printTool prints one tool: its name and annotations, its description, its parameters, and
// how to call it.
func (inv *invocation) printTool(t listedTool) error {
	headline := display.Line(t.Name)
	if hints := t.hints(); hints != "" {
		headline += "  (" + hints + ")"
	}
	fmt.Fprintln(inv.out, headline)
	for _, text := range []string{t.title(), strings.TrimSpace(t.Definition.Description)} {
		if text != "" {
			fmt.Fprintln(inv.out, indent(display.Text(text)))
		}
	}
	list := params.New(t.Definition.InputSchema)
	if len(list.Params) == 0 {
		_, err := fmt.Fprintln(inv.out, "  no parameters")
		return err
	}
	var text strings.Builder
	if err := inv.printParams(&text, list); err != nil {
		return err
	}
	_, err := fmt.Fprintf(inv.out, "%s\n  example: mcpvisor call %s%s\n", indent(text.String()), display.Line(t.Name), exampleOf(list))
	return err
}

// title returns the title of a tool; empty if it says no more than the name.
func (t *listedTool) title() string {
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
func (t *listedTool) hints() string {
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

// indent moves the lines of a text to the right.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}

// exampleOf returns the words that set the required parameters.
func exampleOf(list params.List) (words string) {
	for _, p := range list.Params {
		if p.Required {
			words += " " + display.Line(p.Example())
		}
	}
	return words
}

// printParams prints a table of parameters. The fields of an object are below it.
func (inv *invocation) printParams(out io.Writer, list params.List) error {
	var rows [][]any
	add := func(p params.Param, prefix string) {
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
		rows = append(rows, []any{prefix + display.Line(p.Name), p.Type, required, value, about})
	}
	for _, p := range list.Params {
		add(p, "")
		for _, field := range p.Fields {
			add(field, p.Name+".")
		}
	}
	return inv.table(out, "PARAMETER\tTYPE\tREQUIRED\tDEFAULT\tDESCRIPTION", rows)
}

// joined joins two texts.
func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
