package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/mcpvisor/mcpvisor/facade"
)

// describeMost is the longest description in a list.
const describeMost = 100

// table prints aligned rows.
func (sh *shell) table(header string, rows [][]any) error {
	w := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, line(fmt.Sprint(cell), describeMost))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

type statusCmd struct{}

// Run implements kong's command.
func (statusCmd) Run(sh *shell) error {
	c, stop, err := sh.start()
	if err != nil {
		return err
	}
	defer stop()
	all := c.Status()
	if sh.json {
		err = printJSON(sh.out, all)
	} else {
		rows := make([][]any, 0, len(all))
		for _, s := range all {
			protocol, note := "-", ""
			if s.Session != nil && s.Session.ProtocolVersion != "" {
				protocol = s.Session.ProtocolVersion
			}
			if s.State != facade.Ready {
				note = reason(s)
			} else if s.Session != nil && s.Session.Deprecated != "" {
				note = "deprecated transport HTTP+SSE; see --json"
			} else if n := len(s.Catalog.Warnings); n > 0 {
				note = fmt.Sprintf("%d warnings; see --json", n)
			}
			rows = append(rows, []any{s.Name, s.State, s.Transport, protocol, s.Catalog.Tools,
				s.Catalog.Resources + s.Catalog.Templates, s.Catalog.Prompts, note})
		}
		err = sh.table("SERVER\tSTATE\tTRANSPORT\tPROTOCOL\tTOOLS\tRESOURCES\tPROMPTS\tNOTE", rows)
	}
	if err == nil && len(unready(c)) > 0 {
		err = &exit{code: exitUnavailable}
	}
	return err
}

type toolsCmd struct{}

// Run implements kong's command.
func (toolsCmd) Run(sh *shell) error {
	return sh.list(func(c *facade.Client) (any, string, [][]any) {
		tools := c.Tools()
		rows := make([][]any, 0, len(tools))
		for _, t := range tools {
			rows = append(rows, []any{t.Name, t.Definition.Description})
		}
		return tools, "TOOL\tDESCRIPTION", rows
	})
}

type resourcesCmd struct{}

// Run implements kong's command.
func (resourcesCmd) Run(sh *shell) error {
	return sh.list(func(c *facade.Client) (any, string, [][]any) {
		resources, templates := c.Resources(), c.ResourceTemplates()
		var rows [][]any
		for _, r := range resources {
			rows = append(rows, []any{r.Server, r.URI, r.Definition.Name})
		}
		for _, t := range templates {
			rows = append(rows, []any{t.Server, t.URITemplate, t.Definition.Name + " (template)"})
		}
		return map[string]any{"resources": resources, "resourceTemplates": templates}, "SERVER\tURI\tNAME", rows
	})
}

type promptsCmd struct{}

// Run implements kong's command.
func (promptsCmd) Run(sh *shell) error {
	return sh.list(func(c *facade.Client) (any, string, [][]any) {
		prompts := c.Prompts()
		rows := make([][]any, 0, len(prompts))
		for _, p := range prompts {
			rows = append(rows, []any{p.Name, p.Definition.Description})
		}
		return prompts, "PROMPT\tDESCRIPTION", rows
	})
}

// list prints what all servers offer that came up.
func (sh *shell) list(of func(*facade.Client) (value any, header string, rows [][]any)) error {
	c, stop, err := sh.start()
	if err != nil {
		return err
	}
	defer stop()
	value, header, rows := of(c.Client)
	if sh.json {
		err = printJSON(sh.out, value)
	} else {
		err = sh.table(header, rows)
	}
	if err != nil {
		return err
	}
	return sh.complain(c)
}
