package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/contents"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/form"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// prompter asks the user for the inputs of a configuration (${input:id}).
type prompter struct {
	ctx context.Context
	in  io.Reader
	out io.Writer
	// readPassword reads one line without showing it.
	readPassword func() ([]byte, error)
}

// inputOptions returns the option that asks the user for inputs, if stdin and stderr
// are a terminal. Otherwise inputs come from variables and defaults.
func (o *Opener) inputOptions() []config.Option {
	in, out, ok := o.questionTerminal()
	if !ok {
		return nil
	}
	p := &prompter{ctx: o.Context, in: in, out: out, readPassword: func() ([]byte, error) {
		return term.ReadPassword(int(in.Fd()))
	}}
	state, err := term.GetState(int(in.Fd()))
	return []config.Option{config.WithInput(func(i config.Input) (string, error) {
		value, failure := p.ask(i)
		if failure == nil {
			if o.answers == nil {
				o.answers = map[string]string{}
			}
			o.answers[i.ID] = value
		}
		o.inputInterrupted = o.inputInterrupted || errors.Is(failure, cli.ErrInterrupted)
		if err == nil { // an interrupt during a password leaves the terminal without echo
			_ = term.Restore(int(in.Fd()), state)
		}
		return value, failure
	})}
}

// questionTerminal returns stdin and stderr if both are a terminal, so that the user can be
// asked.
func (o *Opener) questionTerminal() (in, out *os.File, ok bool) {
	in, isFile := o.In.(*os.File)
	out, shown := o.Err.(*os.File)
	return in, out, isFile && shown && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// Confirm asks the user on a terminal. Without one it is confirmed.
func (o *Opener) Confirm(question string) (confirmed bool, err error) {
	in, out, ok := o.questionTerminal()
	if !ok {
		return true, nil
	}
	fmt.Fprint(out, display.Text(question), " [y/N] ")
	answer, err := (&prompter{ctx: o.Context, in: in, out: out}).readLine(false)
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), err
}

// ask asks until the answer is one of the options, or the command is interrupted.
// An empty answer stands for the default.
func (p *prompter) ask(i config.Input) (string, error) {
	for {
		if p.ctx.Err() != nil {
			return "", cli.ErrInterrupted
		}
		p.printQuestion(i)
		value, err := p.readLine(i.Password)
		switch {
		case err != nil:
			return "", err
		case value == "":
			value = i.Default
		}
		if value, ok := matchOption(i.Options, value); ok {
			return value, nil
		}
		fmt.Fprintf(p.out, "Answer with one of: %s\n", display.Text(strings.Join(i.Options, ", ")))
	}
}

func (p *prompter) printQuestion(i config.Input) {
	question := i.Description
	if question == "" {
		question = i.ID
	}
	for n, option := range i.Options {
		fmt.Fprintf(p.out, "  %d  %s\n", n+1, display.Text(option))
	}
	if i.Default != "" && !i.Password {
		question += " [" + i.Default + "]"
	}
	fmt.Fprintf(p.out, "%s (or set %s): ", display.Text(question), i.Variable())
}

// matchOption returns the option that an answer selects, by its text or its number.
// Without options every answer is accepted.
func matchOption(options []string, answer string) (string, bool) {
	if len(options) == 0 || slices.Contains(options, answer) {
		return answer, true
	}
	if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(options) {
		return options[n-1], true
	}
	return "", false
}

// readLine reads one line. An interrupt ends the wait. The goroutine that reads
// ends with the process.
func (p *prompter) readLine(hidden bool) (string, error) {
	line, err := form.NewLines(func() (string, error) {
		if !hidden {
			return form.ReadLine(p.in)
		}
		line, err := p.readPassword()
		fmt.Fprintln(p.out) // the line break that ends the password is not echoed
		return string(line), err
	}).Read(p.ctx)
	switch {
	case errors.Is(err, context.Canceled):
		return "", cli.ErrInterrupted
	case errors.Is(err, io.EOF):
		return "", errors.New("the terminal was closed")
	}
	return strings.TrimRight(line, "\r\n"), err
}

// AskForms lets servers ask the user during the command, if it has a terminal. Otherwise, and
// with --json, servers learn that this client asks nothing.
func (o *Opener) AskForms() {
	o.Forms = true
	o.Progress = o.progressLine()
}

// FormAdvice says how the user can answer the form that a tool needs; empty if this command
// has asked the user already.
func (o *Opener) FormAdvice(attached bool) string {
	switch {
	case attached:
		return "; if it needs a form, mcpvisor --fresh call asks you on a terminal, and mcpvisor run asks nothing"
	case len(o.formOptions()) == 0:
		return "; if it needs a form, call it on a terminal, and without --json"
	}
	return ""
}

// formOptions returns the handlers of elicitation. Only servers that the command starts
// itself get them: those of `mcpvisor run` have a client without a user.
func (o *Opener) formOptions() []facade.Option {
	in, out, ok := o.questionTerminal()
	if !ok || !o.Forms || o.JSON {
		return nil
	}
	terminal := form.New(in, out, o.Progress.pause)
	return []facade.Option{facade.WithElicitationHandler(terminal.Fill), facade.WithURLElicitationHandler(terminal.Visit)}
}

// ProgressLine is the last line of a terminal, which shows the progress of a call. nil shows
// nothing. Safe for concurrent use.
type ProgressLine struct {
	out   io.Writer
	width int

	mu     sync.Mutex
	shown  bool
	paused bool // a form is shown
}

// ProgressLine returns a line if stderr is a terminal.
func (o *Opener) progressLine() *ProgressLine {
	file, ok := o.Err.(*os.File)
	if !ok || o.JSON || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	return &ProgressLine{out: file, width: width}
}

func (p *ProgressLine) Show(report mcpvisor.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		return
	}
	text := table.OneLine(contents.Progress(report), p.width-1)
	_, _ = fmt.Fprint(p.out, "\r\x1b[K", text)
	p.shown = true
}

func (p *ProgressLine) Clear() { p.pause(false) }

// pause removes the line, and shows it no more until pause(false).
func (p *ProgressLine) pause(paused bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.shown, p.paused = false, paused
}
