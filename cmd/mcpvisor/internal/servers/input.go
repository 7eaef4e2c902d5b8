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

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/form"
	"github.com/mcpvisor/mcpvisor/config"
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
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		if hidden {
			line, err := p.readPassword()
			fmt.Fprintln(p.out) // the line break that ends the password is not echoed
			done <- result{string(line), err}
			return
		}
		line, err := form.ReadLine(p.in)
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		if errors.Is(r.err, io.EOF) {
			return "", errors.New("the terminal was closed")
		}
		return strings.TrimRight(r.line, "\r\n"), r.err
	case <-p.ctx.Done():
		return "", cli.ErrInterrupted
	}
}
