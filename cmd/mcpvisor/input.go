package main

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

// inputOptions is how a configuration gets its inputs: from the user if stdin and
// stderr are a terminal, else from variables and defaults alone.
func (inv *invocation) inputOptions() []config.Option {
	in, ok := inv.in.(*os.File)
	out, shown := inv.err.(*os.File)
	if !ok || !shown || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	p := &prompter{ctx: inv.ctx, in: in, out: out, readPassword: func() ([]byte, error) {
		return term.ReadPassword(int(in.Fd()))
	}}
	state, err := term.GetState(int(in.Fd()))
	return []config.Option{config.WithInput(func(i config.Input) (string, error) {
		value, asked := p.ask(i)
		if err == nil { // an interrupt leaves a password's prompt without echo
			_ = term.Restore(int(in.Fd()), state)
		}
		return value, asked
	})}
}

// ask asks until the answer fits, or the command is interrupted. An empty
// answer is the default.
func (p *prompter) ask(i config.Input) (string, error) {
	for {
		if p.ctx.Err() != nil {
			return "", errInterrupted
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

// matchOption finds the option that an answer means: its text, or its number. Without
// options any answer fits.
func matchOption(options []string, answer string) (string, bool) {
	if len(options) == 0 || slices.Contains(options, answer) {
		return answer, true
	}
	if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(options) {
		return options[n-1], true
	}
	return "", false
}

// readLine reads one line. An interrupt ends the wait; the read itself ends
// with the process.
func (p *prompter) readLine(hidden bool) (string, error) {
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		if hidden {
			line, err := p.readPassword()
			fmt.Fprintln(p.out) // the user's own line break was not shown
			done <- result{string(line), err}
			return
		}
		line, err := readVisible(p.in)
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		if errors.Is(r.err, io.EOF) {
			return "", errors.New("the terminal was closed")
		}
		return strings.TrimRight(r.line, "\r\n"), r.err
	case <-p.ctx.Done():
		return "", errInterrupted
	}
}

// readVisible reads to the end of a line and not beyond: what follows belongs
// to the command.
func readVisible(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := in.Read(one)
		if n == 1 {
			if one[0] == '\n' {
				return string(line), nil
			}
			line = append(line, one[0])
		}
		if err != nil {
			return string(line), err
		}
	}
}
