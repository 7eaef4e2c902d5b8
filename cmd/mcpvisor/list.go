package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/mcpvisor/mcpvisor/facade"
)

// maxCellLength is the longest cell of a table, in characters.
const maxCellLength = 100

// table prints rows with aligned columns.
func (inv *invocation) table(header string, rows [][]any) error {
	w := tabwriter.NewWriter(inv.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, oneLine(fmt.Sprint(cell), maxCellLength))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

type toolsCmd struct{}

// Run implements kong's command.
func (toolsCmd) Run(inv *invocation) error {
	return inv.list(func(c *facade.Client) (any, string, [][]any) {
		tools := c.Tools()
		rows := make([][]any, 0, len(tools))
		for _, t := range tools {
			rows = append(rows, []any{t.Name, t.Definition.Description})
		}
		return listTools(tools), "TOOL\tDESCRIPTION", rows
	})
}

type resourcesCmd struct{}

// Run implements kong's command.
func (resourcesCmd) Run(inv *invocation) error {
	return inv.list(func(c *facade.Client) (any, string, [][]any) {
		resources, templates := c.Resources(), c.ResourceTemplates()
		var rows [][]any
		for _, r := range resources {
			rows = append(rows, []any{r.Server, r.URI, r.Definition.Name})
		}
		for _, t := range templates {
			rows = append(rows, []any{t.Server, t.URITemplate, t.Definition.Name + " (template)"})
		}
		return resourceList{orEmpty(resources), orEmpty(templates)}, "SERVER\tURI\tNAME", rows
	})
}

type promptsCmd struct{}

// Run implements kong's command.
func (promptsCmd) Run(inv *invocation) error {
	return inv.list(func(c *facade.Client) (any, string, [][]any) {
		prompts := c.Prompts()
		rows := make([][]any, 0, len(prompts))
		for _, p := range prompts {
			rows = append(rows, []any{p.Name, p.Definition.Description})
		}
		return promptList{orEmpty(prompts)}, "PROMPT\tDESCRIPTION", rows
	})
}

// list prints what all servers that became ready offer.
func (inv *invocation) list(of func(*facade.Client) (value any, header string, rows [][]any)) error {
	c, stop, err := inv.start()
	if err != nil {
		return err
	}
	defer stop()
	value, header, rows := of(c.Client)
	if inv.json {
		err = printJSON(inv.out, value)
	} else {
		err = inv.table(header, rows)
	}
	if err != nil {
		return err
	}
	return inv.warnUnready(c)
}
