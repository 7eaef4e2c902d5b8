// Package form asks the user of a terminal what a server wants to know (elicitation/create of
// MCP): the fields of a form, or whether the user agrees to visit a URL. It reads the lines that
// the user types.
package form

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/params"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// These are actions of an answer, as MCP names them.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel"
)

// maxAttempts is how often a field is asked for again after an answer that is not valid.
const maxAttempts = 5

// Terminal asks on a terminal, one question at a time. Safe for concurrent use.
type Terminal struct {
	lines *Lines
	out   io.Writer
	turn  chan struct{} // holds one token: the right to ask
	// around is called with true before a form is shown, and with false after it; may be nil.
	around func(shown bool)
}

// New returns a terminal that shows questions on out. around, which may be nil, is called
// with true before a form is shown and with false after it.
func New(in io.Reader, out io.Writer, around func(shown bool)) *Terminal {
	t := &Terminal{lines: NewLines(func() (string, error) { return ReadLine(in) }), out: out, turn: make(chan struct{}, 1), around: around}
	if around == nil {
		t.around = func(bool) {}
	}
	return t
}

// take waits for the turn of a request, and returns what ends it.
func (t *Terminal) take(ctx context.Context) (release func(), err error) {
	select {
	case t.turn <- struct{}{}:
		t.around(true)
		t.lines.Discard()
		return func() {
			t.around(false)
			<-t.turn
		}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Fill asks the user to fill in a form. The end of the input cancels it.
func (t *Terminal) Fill(ctx context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
	release, err := t.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	schema, err := json.Marshal(r.RequestedSchema)
	if err != nil {
		return nil, err
	}
	// The go-sdk keeps no order of the fields. Required ones come first.
	fields := params.New(schema).Params
	slices.SortStableFunc(fields, func(a, b params.Param) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	fmt.Fprintf(t.out, "\nserver %s asks: %s\n", display.Line(r.Server), display.Text(r.Message))
	question := "Do you agree? y: yes, n: decline, c: cancel: "
	if len(fields) > 0 {
		question = fmt.Sprintf("Answer %s for it? y: yes, n: decline, c: cancel: ", display.Count(len(fields), "question"))
	}
	action, err := t.consent(ctx, question)
	if err != nil || action != accept {
		return &mcp.ElicitResult{Action: action}, err
	}
	content := map[string]any{}
	for _, field := range fields {
		value, err := t.field(ctx, field)
		switch {
		case errors.Is(err, io.EOF):
			return &mcp.ElicitResult{Action: cancel}, nil
		case err != nil:
			return nil, err
		case value == nil:
			continue
		}
		var v any
		if err := json.Unmarshal(value, &v); err != nil {
			return nil, err
		}
		content[field.Name] = v
	}
	return &mcp.ElicitResult{Action: accept, Content: content}, nil
}

// Visit asks the user to visit a URL. It shows the whole URL, and its host on a line of its
// own, because a long URL hides it. It opens nothing.
func (t *Terminal) Visit(ctx context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
	release, err := t.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" {
		return &mcp.ElicitResult{Action: decline}, nil
	}
	fmt.Fprintf(t.out, "\nserver %s asks you to visit a page: %s\n  host  %s\n  URL   %s\n",
		display.Line(r.Server), display.Text(r.Message), display.Line(u.Host), display.Line(r.URL))
	action, err := t.consent(ctx, "Do you agree, and open it yourself? y: yes, n: decline, c: cancel: ")
	return &mcp.ElicitResult{Action: action}, err
}

// consent asks until the answer is yes, decline or cancel. The end of the input cancels.
func (t *Terminal) consent(ctx context.Context, question string) (action string, err error) {
	for {
		fmt.Fprint(t.out, question)
		line, err := t.lines.Read(ctx)
		switch answer := strings.ToLower(strings.TrimSpace(line)); {
		case answer == "y" || answer == "yes":
			return accept, nil
		case answer == "n" || answer == "no":
			return decline, nil
		case answer == "c" || answer == "cancel" || errors.Is(err, io.EOF):
			return cancel, nil
		case err != nil:
			fmt.Fprintln(t.out)
			return cancel, err
		}
		fmt.Fprintln(t.out, "  answer y, n or c")
	}
}

// field asks for one field until the answer is valid. It returns nil for a field without a
// value. After several answers that are not valid it cancels, as the end of the input does.
func (t *Terminal) field(ctx context.Context, p params.Param) (json.RawMessage, error) {
	t.describe(p)
	for range maxAttempts {
		fmt.Fprint(t.out, t.question(p))
		line, err := t.lines.Read(ctx)
		if text := strings.TrimSpace(line); text != "" {
			value, problem := p.Answer(ctx, text)
			if problem == "" {
				return value, nil
			}
			fmt.Fprintf(t.out, "  %s\n", display.Line(problem))
		} else if err == nil {
			if p.Default != nil {
				return p.Default, nil
			}
			if !p.Required {
				return nil, nil
			}
			fmt.Fprintln(t.out, "  it is required")
		}
		if err != nil {
			fmt.Fprintln(t.out)
			return nil, err
		}
	}
	fmt.Fprintln(t.out, "  too many answers were not valid; the form is canceled")
	return nil, io.EOF
}

// describe shows what a field means, and the values that it may have.
func (t *Terminal) describe(p params.Param) {
	about := display.Line(p.Description)
	if about != "" {
		fmt.Fprintf(t.out, "  %s\n", about)
	}
	for i, value := range p.Enum {
		text := params.Plain(value)
		if i < len(p.Titles) {
			text = p.Titles[i]
		}
		fmt.Fprintf(t.out, "  %d  %s\n", i+1, display.Line(text))
	}
}

// question is the line in which the answer is typed.
func (t *Terminal) question(p params.Param) string {
	notes := []string{p.Type}
	switch {
	case len(p.Enum) > 0 && p.IsList():
		notes = []string{"numbers or texts, with commas"}
	case len(p.Enum) > 0:
		notes = []string{"number or text"}
	case p.Type == "boolean":
		notes = []string{"y or n"}
	}
	if p.Format != "" {
		notes = append(notes, p.Format)
	}
	if !p.Required {
		notes = append(notes, "optional")
	}
	text := fmt.Sprintf("%s (%s)", p.Name, strings.Join(notes, ", "))
	if p.Default != nil {
		text += " [" + params.Plain(p.Default) + "]"
	}
	return display.Line(text) + ": "
}

// Lines reads lines for questions that may be withdrawn before they are answered. Safe for
// concurrent use.
type Lines struct {
	read func() (string, error)

	mu      sync.Mutex  // one question at a time
	pending chan answer // of the goroutine that reads; nil without one
}

type answer struct {
	line string
	err  error
}

// NewLines reads lines by read. A read that is under way when a question is withdrawn continues, and
// ends with the process or the next line.
func NewLines(read func() (string, error)) *Lines { return &Lines{read: read} }

// Discard drops a line that was typed since a question was withdrawn: it answers something
// else than the next question. Call it before that is shown.
func (l *Lines) Discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		return
	}
	select {
	case a := <-l.pending:
		if l.pending = nil; a.err != nil { // the next read finds it again
			l.pending = make(chan answer, 1)
			l.pending <- answer{"", a.err}
		}
	default:
	}
}

// Read returns the next line, without its end.
func (l *Lines) Read(ctx context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		l.pending = make(chan answer, 1)
		go func(to chan<- answer) {
			line, err := l.read()
			to <- answer{line, err}
		}(l.pending)
	}
	select {
	case a := <-l.pending:
		l.pending = nil
		return a.line, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ReadLine reads to the end of a line and not beyond, because others may read the rest. The
// line is without its end.
func ReadLine(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := in.Read(one)
		if n == 1 {
			if one[0] == '\n' {
				if len(line) > 0 && line[len(line)-1] == '\r' {
					line = line[:len(line)-1]
				}
				return string(line), nil
			}
			line = append(line, one[0])
		}
		if err != nil {
			return string(line), err
		}
	}
}
