package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/contents"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/params"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// call is the form of one tool, and what came of its last call. The goroutine of the program
// owns it.
type call struct {
	tool     string // qualified name
	readOnly bool   // the server says so
	list     params.List
	values   []string // what the user has typed, by field
	at       int      // the field that is edited
	input    textinput.Model
	problem  string // why the call was not sent
	confirm  bool   // "call it?" is asked

	began   time.Time
	cancel  context.CancelFunc // of the call that runs; nil if none does
	outcome []string           // lines about the last call
	failed  bool
}

type (
	// formMsg is the form of the tool with a qualified name, whose schema was read.
	formMsg struct {
		name string
		tool table.Tool
		err  error
	}
	calledMsg struct {
		tool   string
		result json.RawMessage
		took   time.Duration
		err    error
	}
)

// openForm reads the schema of the selected tool.
func (m *model) openForm() tea.Cmd {
	if m.toolAt >= len(m.data.tools.Tools) || m.opts.Tool == nil {
		return nil
	}
	ctx, read, name := m.ctx, m.opts.Tool, mcpvisor.Qualify(m.selected, m.data.tools.Tools[m.toolAt].OriginalName)
	return func() tea.Msg {
		text, err := read(ctx, name)
		if err != nil {
			return formMsg{name: name, err: err}
		}
		tools, err := table.ParseTools(text)
		switch {
		case err != nil:
			return formMsg{name: name, err: err}
		case len(tools) == 0:
			return formMsg{name: name, err: fmt.Errorf("%s is no longer listed", name)}
		}
		return formMsg{name: name, tool: tools[0]}
	}
}

// keepTool keeps the selected tool when the tools were read again. Another server's first tool
// is selected.
func (m *model) keepTool(before data) {
	tools := m.data.tools.Tools
	if before.server.Status.Name != m.data.server.Status.Name {
		m.toolAt = 0
		return
	}
	if m.toolAt < len(before.tools.Tools) {
		name := before.tools.Tools[m.toolAt].OriginalName
		if i := slices.IndexFunc(tools, func(t api.Tool) bool { return t.OriginalName == name }); i >= 0 {
			m.toolAt = i
		}
	}
	m.toolAt = max(min(m.toolAt, len(tools)-1), 0)
}

// chosen reports whether the tool with a qualified name is the selected one of the tools that
// are shown.
func (m *model) chosen(name string) bool {
	return m.screen == screenTools && m.toolAt < len(m.data.tools.Tools) && name == mcpvisor.Qualify(m.selected, m.data.tools.Tools[m.toolAt].OriginalName)
}

// showForm shows the form of a tool. What was typed for the same tool is kept. A form that comes
// after the user has turned to something else is dropped: a call that runs keeps its own.
func (m *model) showForm(msg formMsg) tea.Cmd {
	if !m.chosen(msg.name) {
		return nil
	}
	if msg.err != nil {
		m.flash = msg.err.Error()
		return nil
	}
	if m.call == nil || m.call.tool != msg.tool.Name {
		list := params.New(msg.tool.Definition.InputSchema)
		a := msg.tool.Definition.Annotations
		m.call = &call{tool: msg.tool.Name, readOnly: a != nil && a.ReadOnly != nil && *a.ReadOnly, list: list, values: make([]string, len(list.Params))}
		m.call.input = textinput.New()
		m.call.input.Prompt = ""
	}
	cmd := m.show(screenCall)
	m.call.edit(m.call.at)
	return tea.Batch(cmd, m.call.input.Focus())
}

// edit moves to a field, and keeps what was typed into the one before.
func (c *call) edit(at int) {
	if len(c.values) == 0 {
		return
	}
	c.at = min(max(at, 0), len(c.values)-1)
	c.input.SetValue(c.values[c.at])
	c.input.CursorEnd()
}

// arguments makes arguments of what was typed. problem says what is wrong; empty if nothing is.
func (c *call) arguments(ctx context.Context) (object json.RawMessage, problem string) {
	var order []string
	members := map[string]json.RawMessage{}
	for i, p := range c.list.Params {
		text := strings.TrimSpace(c.values[i])
		if text == "" {
			if p.Required && len(p.Default) == 0 {
				c.edit(i)
				return nil, display.Line(p.Name) + " is required"
			}
			continue
		}
		value, problem := p.Answer(ctx, text)
		if problem != "" {
			c.edit(i)
			return nil, display.Line(p.Name) + ": " + problem
		}
		order = append(order, p.Name)
		members[p.Name] = value
	}
	object = params.Object(order, members)
	if problems := c.list.Check(ctx, object); len(problems) > 0 {
		return nil, strings.Join(problems, "; ")
	}
	return object, ""
}

func (m *model) pressInForm(key tea.KeyPressMsg) (cmd tea.Cmd) {
	c := m.call
	name := key.String()
	switch {
	case c.cancel != nil:
		if name == "esc" {
			c.cancel()
		}
		return nil
	case c.confirm:
		c.confirm = false
		if name == "y" {
			return m.send()
		}
		return nil
	}
	c.problem = ""
	switch name {
	case "esc":
		return m.show(screenTools)
	case "pgup":
		m.scroll(-max(m.room()-1, 1))
		return nil
	case "pgdown":
		m.scroll(max(m.room()-1, 1))
		return nil
	case "up", "shift+tab":
		c.edit(c.at - 1)
	case "down", "tab":
		c.edit(c.at + 1)
	case "enter":
		if c.at+1 < len(c.values) {
			c.edit(c.at + 1)
			break
		}
		if _, c.problem = c.arguments(m.ctx); c.problem != "" {
			return nil
		}
		if !c.readOnly {
			c.confirm = true
			return nil
		}
		return m.send()
	default:
		if len(c.values) > 0 {
			c.input, cmd = c.input.Update(key)
			c.values[c.at] = c.input.Value()
		}
	}
	line := linesPerField * c.at
	m.top = min(max(m.top, line+linesPerField-m.room()), line)
	return cmd
}

func (m *model) send() tea.Cmd {
	c := m.call
	object, problem := c.arguments(m.ctx)
	if c.problem = problem; problem != "" {
		return nil
	}
	ctx, cancel := context.WithCancel(m.ctx)
	c.cancel, c.began, c.outcome = cancel, m.opts.Now(), nil
	do, tool, now := m.opts.Call, c.tool, m.opts.Now
	return func() tea.Msg {
		defer cancel()
		began := now()
		result, err := do(ctx, tool, object)
		return calledMsg{tool, result, now().Sub(began), err}
	}
}

const linesPerField = 2

const maxResultLines = 500

// called shows what came of a call. It stays until the next one.
func (m *model) called(msg calledMsg) {
	c := m.call
	if c == nil || c.tool != msg.tool {
		return
	}
	c.cancel, c.failed = nil, msg.err != nil
	m.top = linesPerField * len(c.list.Params) // the view ends there at the latest
	if msg.err != nil {
		text := msg.err.Error()
		var e *mcpvisor.Error
		if errors.As(msg.err, &e) && e.Outcome == mcpvisor.OutcomeUnknown {
			text += "; it may have been executed: look before you repeat it"
		}
		c.outcome = []string{"failed after " + plaintext.Took(msg.took), text}
		return
	}
	var result contents.Result
	if err := json.Unmarshal(msg.result, &result); err != nil {
		c.failed, c.outcome = true, []string{"the result cannot be read: " + err.Error()}
		return
	}
	c.failed = result.IsError
	c.outcome = []string{"answered in " + plaintext.Took(msg.took)}
	if c.failed {
		c.outcome[0] = "the tool reports an error, after " + plaintext.Took(msg.took)
	}
	if result.AsksUser() {
		c.outcome[0] += m.opts.FormAdvice
	}
	var text strings.Builder
	if err := result.Print(contents.NewPrinter(&text, true)); err != nil {
		text.WriteString("the structured content cannot be read: " + err.Error())
	}
	if text.Len() > 0 {
		c.outcome = append(c.outcome, strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")...)
	}
	if more := len(c.outcome) - maxResultLines; more > 0 {
		c.outcome = append(c.outcome[:maxResultLines], display.Count(more, "line")+" more; mcpvisor call prints them")
	}
}

// callLines are the form and what came of the last call.
func (m *model) callLines() (lines []string) {
	c := m.call
	width := 0
	for _, p := range c.list.Params {
		width = max(width, len(display.Line(p.Name)))
	}
	width = min(width, max(m.width/4, 8))
	for i, p := range c.list.Params {
		mark, value := "  ", cell(c.values[i], max(m.width-width-6, 8), false)
		if i == c.at && c.cancel == nil {
			mark = strong.Render("▸ ")
			c.input.SetWidth(max(m.width-width-8, 8))
			value = c.input.View()
		}
		lines = append(lines, mark+strong.Render(cell(p.Name, width, false))+"  "+value)
		about := p.Type
		if p.Required {
			about += ", required"
		}
		if len(p.Default) > 0 {
			about += ", default " + params.Plain(p.Default)
		}
		if len(p.Enum) > 0 {
			about += ", one of " + params.Values(p.Enum)
		}
		if p.Description != "" {
			about += ": " + p.Description
		}
		lines = append(lines, strings.Repeat(" ", width+4)+quiet.Render(cell(about, m.width-width-4, false)))
	}
	if len(c.list.Params) == 0 {
		lines = append(lines, quiet.Render("  no parameters"))
	}
	switch {
	case c.problem != "":
		lines = append(lines, "", failure.Render("  "+cell("not sent: "+c.problem, m.width-2, false)))
	case c.cancel != nil:
		lines = append(lines, "", busy.Render(fmt.Sprintf("  calling for %s; esc cancels", plaintext.Duration(m.opts.Now().Sub(c.began)))))
	}
	for i, line := range c.outcome {
		style := plain
		switch {
		case c.failed:
			style = failure
		case i == 0:
			style = good
		}
		if i == 0 {
			lines = append(lines, "")
		}
		for _, part := range wrap(line, m.width-2, 0) {
			lines = append(lines, style.Render("  "+part))
		}
	}
	return lines
}

// selectTool selects the tool that is n rows further, and keeps it in view.
func (m *model) selectTool(n int) {
	last := len(m.data.tools.Tools) - 1
	m.toolAt = max(min(m.toolAt+n, last), 0)
	rows := max(m.room()-toolHead, 1) // below the heading
	m.top = min(max(m.top, m.toolAt+1-rows), m.toolAt)
}

func (c *call) formPairs() []string {
	send := "call"
	if c.at+1 < len(c.values) {
		send = "next"
	}
	return slices.Concat([]string{"↵", send}, []string{"↑↓", "field", "esc", "back"})
}
