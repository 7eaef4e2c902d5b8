package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/facts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
)

type clientsCmd struct{}

// Run implements kong's command. With --json it prints the answer of GET api/clients.
func (clientsCmd) Run(inv *invocation, c *servers.Set) error {
	all, err := c.Clients(inv.Context)
	switch {
	case err != nil:
		return err
	case inv.JSON:
		return cli.PrintJSON(inv.Out, all)
	case all.Total == 0:
		_, err = fmt.Fprintln(inv.Out, "no client within 15 minutes; hosts come with mcpvisor stdio, or with run --mcp ADDR")
	default:
		now, rows := time.Now(), [][]any(nil)
		for i := range all.Sessions {
			s := &all.Sessions[i]
			last := "-"
			if s.Number > 0 {
				last = plaintext.Duration(now.Sub(s.Last))
			}
			rows = append(rows, []any{facts.ClientName(s), facts.ClientState(s), s.Requests, s.Calls, s.Failed, s.Tasks, last, facts.ClientOrigin(s)})
		}
		err = inv.Table("CLIENT\tSTATE\tREQUESTS\tCALLS\tFAILED\tTASKS\tLAST\tFROM", rows)
		if more := all.Total - len(all.Sessions); more > 0 && err == nil {
			_, err = fmt.Fprintf(inv.Out, "and %d more\n", more)
		}
	}
	if err != nil || len(all.Offers) == 0 {
		return err
	}
	var rows [][]any
	for _, o := range all.Offers {
		rows = append(rows, []any{cmp.Or(o.Profile, "everything"), o.Tools, o.Prompts, o.Resources + o.Templates, o.Withheld, strings.Join(o.Servers, ", ")})
	}
	if _, err := fmt.Fprintln(inv.Out); err != nil {
		return err
	}
	return inv.Table("MAY CALL\tTOOLS\tPROMPTS\tRESOURCES\tWITHHELD\tSERVERS", rows)
}
