package edit

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

var marks = map[hosts.Action]string{hosts.ActionAdd: "+", hosts.ActionSame: "=", hosts.ActionReplace: "~", hosts.ActionClash: "!", hosts.ActionRefuse: "!"}

// printPlan prints what an import does, by the files of the hosts.
func printPlan(inv *cli.Invocation, plan *hosts.Plan, path string, written bool) error {
	var b strings.Builder
	last := ""
	for _, i := range plan.Items {
		if source := i.Host + "  " + i.Path; source != last {
			fmt.Fprintln(&b, source)
			last = source
		}
		fmt.Fprintf(&b, "  %s %s  %s\n", marks[i.Action], i.Name, table.OneLine(describeItem(i, path), table.MaxText))
		for _, note := range i.Notes {
			fmt.Fprintf(&b, "      %s\n", table.OneLine(cli.ConfigTerms(note), table.MaxText))
		}
	}
	for _, text := range plan.Unreadable {
		fmt.Fprintf(&b, "not read: %s\n", text)
	}
	printVariables(&b, plan.Variables)
	changed := plan.Count(hosts.ActionAdd) + plan.Count(hosts.ActionReplace)
	switch {
	case changed == 0:
		fmt.Fprintf(&b, "Nothing to import: %s stays as it is.\n", path)
	case written:
		fmt.Fprintf(&b, "%s written with %s of other hosts; their files stay as they are.\n", path, display.Count(changed, "server"))
	default:
		fmt.Fprintf(&b, "Nothing was written. With --write, %s gets %s.\n", path, display.Count(changed, "server"))
	}
	if changed > 0 {
		b.WriteString("Look through the rest: a secret that looks like an ordinary text is imported as it is.\n")
	}
	_, err := inv.Out.Write([]byte(display.Text(b.String())))
	return err
}

func describeItem(i hosts.Item, path string) string {
	from := ""
	if i.Line > 0 {
		from = fmt.Sprintf(" (line %d)", i.Line)
	}
	switch i.Action {
	case hosts.ActionSame:
		return "is the same in " + i.Reason
	case hosts.ActionReplace:
		return i.Target + from + ", replaces " + i.Reason
	case hosts.ActionClash:
		return "differs from " + i.Reason + from + ", which stays; --rename adds this one, too, --replace takes it instead of one in " + path
	case hosts.ActionRefuse:
		return "cannot be imported" + from + ": " + cli.ConfigTerms(i.Reason)
	default:
	}
	return i.Target + from
}

func printVariables(b *strings.Builder, variables []*hosts.Variable) {
	if len(variables) == 0 {
		return
	}
	b.WriteString("What looks like a secret stays where it is. Set these variables, which stand for it or are named by an entry, before the servers start, each to the whole value unless a part is named:\n")
	width := 0
	for _, v := range variables {
		width = max(width, len(v.Name))
	}
	for _, v := range variables {
		state := map[bool]string{true: "set"}[v.Set]
		if v.Differs {
			state = "set to another value"
		}
		fmt.Fprintf(b, "  %-*s  %s: %s\n", width, v.Name, cmp.Or(state, "not set"), strings.Join(v.For, "; "))
	}
}
