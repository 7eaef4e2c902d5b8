package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// changePrinter prints what happens to the servers of `mcpvisor run`. With --json it prints
// each event as one object in one line; as text it leaves out what an operator does not
// need. One goroutine prints, begin first and end last. What a reload says comes to it through
// notes, so that an output without a reader delays no reload.
type changePrinter struct {
	inv     *servers.Opener
	notes   chan func() // to be called by the goroutine that prints
	servers int
	width   int             // of the column of names
	ready   map[string]bool // servers that are ready

	// In a fleet, node is the id of this node, and registered counts the servers, which change.
	// Otherwise they are zero.
	node       string
	registered func() int
}

func (p *changePrinter) count() int {
	if p.registered != nil {
		return p.registered()
	}
	return p.servers
}

func newChangePrinter(inv *servers.Opener, specs []mcpvisor.ServerSpec) *changePrinter {
	p := &changePrinter{inv: inv, notes: make(chan func(), maxNotes), ready: map[string]bool{}}
	p.set(specs)
	return p
}

func (p *changePrinter) set(specs []mcpvisor.ServerSpec) {
	p.servers, p.width = len(specs), 0
	for _, spec := range specs {
		p.width = max(p.width, utf8.RuneCountInString(spec.Name))
	}
}

// maxNotes is how many notes wait to be printed. Further ones are lost.
const maxNotes = 100

func (p *changePrinter) later(note func()) {
	select {
	case p.notes <- note:
	default: // the output has no reader
	}
}

// run prints events until they end, and calls after for each. It returns the first error.
func (p *changePrinter) run(events <-chan mcpvisor.Event, after func(mcpvisor.Event)) (failed error) {
	for {
		select {
		case note := <-p.notes: // an event that follows from a reload comes after its plan
			note()
			continue
		default:
		}
		select {
		case note := <-p.notes:
			note()
		case ev, open := <-events:
			if !open {
				return failed
			}
			if err := p.print(ev); err != nil && failed == nil {
				failed = err
			}
			after(ev)
		}
	}
}

// plan prints what a reload will do. specs are those of all servers from then on.
func (p *changePrinter) plan(r control.Reload, specs []mcpvisor.ServerSpec) {
	p.set(specs)
	var parts []string
	for _, one := range []struct {
		action control.Action
		text   string
	}{{control.ActionAdd, "add "}, {control.ActionReplace, "replace "}, {control.ActionRemove, "remove "}, {control.ActionKeep, "keep as it was "}, {control.ActionUnusable, "not usable: "}} {
		var names []string
		for _, c := range r.Changes {
			if c.Action == one.action {
				name := c.Server
				if len(c.Differences) > 0 {
					name += " (" + c.Text() + ")"
				}
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			parts = append(parts, one.text+strings.Join(names, ", "))
		}
	}
	if r.Unchanged > 0 || len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("%d unchanged", r.Unchanged))
	}
	if len(r.Also) > 0 {
		parts = append(parts, "changed: "+strings.Join(r.Also, ", "))
	}
	p.note("reload: %s", strings.Join(parts, "; "))
}

// reloaded prints what a reload has done.
func (p *changePrinter) reloaded(r control.Reload) {
	for _, c := range r.Changes {
		switch {
		case c.Error != "":
			p.note("reload failed for %s: %s", c.Server, c.Error)
		case c.Action == control.ActionReplace, c.Drained+c.Cut > 0:
			p.note("%s: %s", c.Server, c.Done())
		}
	}
	if r.GroupsProblem != "" {
		p.note("the groups stay as they were: %s", r.GroupsProblem)
	}
	p.note("reloaded in %s, %s", plaintext.Duration(time.Duration(r.TookMs)*time.Millisecond), display.Count(p.servers, "server"))
}

// note prints a line that is not about an event. With --json stdout has events only.
func (p *changePrinter) note(format string, args ...any) {
	text := table.OneLine(fmt.Sprintf(format, args...), table.MaxText)
	switch {
	case p.interrupted():
	case p.inv.JSON:
		p.inv.WriteReport(cli.Report{Kind: cli.KindNote, Message: text})
	default:
		fmt.Fprintln(p.inv.Out, time.Now().Format("15:04:05.000")+"  "+text)
	}
}

// begin prints what is run, and where it can be looked at.
func (p *changePrinter) begin(info control.Info) error {
	text := fmt.Sprintf("%s of %s, pid %d\n", display.Count(p.count(), "server"), table.OneLine(info.Config, table.MaxText), info.PID)
	for _, address := range [][2]string{{"page: ", info.URL}, {"MCP server: ", info.MCP}} {
		switch line := address[0] + address[1]; {
		case address[1] == "":
		case p.inv.JSON: // stdout has events only
			p.inv.WriteReport(cli.Report{Kind: cli.KindNote, Message: line})
		default:
			text += line + "\n"
		}
	}
	if p.inv.JSON {
		return nil
	}
	_, err := fmt.Fprint(p.inv.Out, text)
	return err
}

func (p *changePrinter) end(took time.Duration) error {
	if p.inv.JSON {
		return nil
	}
	_, err := fmt.Fprintf(p.inv.Out, "stopped %s in %s\n", display.Count(p.count(), "server"), plaintext.Duration(took))
	return err
}

// print prints one event. After an interrupt only --json prints any: every server stops.
func (p *changePrinter) print(ev mcpvisor.Event) error {
	ev.Cause = cli.CauseInConfigTerms(ev.Cause)
	if p.inv.JSON {
		return p.printObject(ev)
	}
	before := len(p.ready)
	switch ev.Kind {
	case mcpvisor.EventReady:
		p.ready[ev.Server] = true
	case mcpvisor.EventDown, mcpvisor.EventAsleep, mcpvisor.EventStopped, mcpvisor.EventUnregistered:
		delete(p.ready, ev.Server)
	default:
	}
	if slices.Contains(notPrinted, ev.Kind) || p.interrupted() {
		return nil
	}
	p.width = max(p.width, utf8.RuneCountInString(ev.Server))
	line := fmt.Sprintf("%s  %-*s  %s", ev.Time.Format("15:04:05.000"), p.width, ev.Server, table.OneLine(textOf(&ev), table.MaxText))
	if len(p.ready) != before {
		line += fmt.Sprintf("  (%d of %d ready)", len(p.ready), p.count())
	}
	_, err := fmt.Fprintln(p.inv.Out, line)
	return err
}

// textOf is the text of an event without its server, with what its row of the table leaves out.
func textOf(ev *mcpvisor.Event) string {
	text := strings.TrimPrefix(ev.String(), ev.Server+" ")
	if ev.StartTook > 0 {
		text += ", started in " + plaintext.Duration(ev.StartTook)
	}
	if required := (*mcpvisor.AuthRequired)(nil); ev.Kind == mcpvisor.EventAuthRequired && errors.As(ev.Cause, &required) { // OAuth is configured
		text += "; run: mcpvisor authorize " + ev.Server
	}
	return text
}

// notPrinted are the kinds of events that an operator need not see.
var notPrinted = []mcpvisor.EventKind{mcpvisor.EventRegistered, mcpvisor.EventConnecting, mcpvisor.EventStable, mcpvisor.EventResourceUpdated, mcpvisor.EventUnregistered}

func (p *changePrinter) interrupted() bool { return p.inv.Context.Err() != nil }

func (p *changePrinter) printObject(ev mcpvisor.Event) error {
	object := any(ev)
	if p.node != "" {
		object = struct {
			Node string `json:"node"`
			mcpvisor.Event
		}{p.node, ev}
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return cli.PrintRaw(p.inv.Out, data)
}
