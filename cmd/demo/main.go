// Command demo runs six MCP servers that crash, hang, exit and forget, and checks everything
// that it prints. It needs neither network nor configuration: the servers are this binary,
// executed again, and one is served over HTTP on a loopback port.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

func main() {
	mcptest.Main() // a re-executed process is a server, and does not return
	s, code, done := parseFlags(os.Args[1:], os.Stdout, os.Stderr)
	if done {
		os.Exit(code)
	}
	p := newPrinter(os.Stdout)
	p.width = 80
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		p.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(fd); err == nil {
			p.width = width
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code = run(ctx, p, s)
	stop()
	os.Exit(code)
}

// parseFlags reads the command line. done says that the program ends with the code: help was
// printed, or one line about what is wrong.
func parseFlags(args []string, out, errs io.Writer) (s settings, code int, done bool) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // it prints the usage after each error
	flags.Int64Var(&s.seed, "seed", time.Now().UnixNano()%1_000_000, "seed of the storm; a failure prints it")
	flags.DurationVar(&s.storm, "storm", 4*time.Second, "length of the storm")
	flags.DurationVar(&s.pace, "pace", 500*time.Millisecond, "pause between steps, so that the output can be read")
	flags.BoolFunc("http", "serve the page of the servers, at 127.0.0.1:7777 or at `address` (--http=address), and stay until interrupted", func(text string) error {
		switch text {
		case "true":
			text = defaultAddress
		case "false":
			text = ""
		}
		s.http = text
		return nil
	})
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, "go run ./cmd/demo runs six servers that crash, and checks what follows. Flags:")
		flags.SetOutput(out)
		flags.PrintDefaults()
		return s, 0, true
	}
	extra := flags.Args()
	if s.http == defaultAddress && len(extra) == 1 { // --http address
		s.http, extra = extra[0], nil
	}
	if err == nil && len(extra) > 0 {
		err = fmt.Errorf("unexpected argument %q", extra[0])
	}
	if err == nil {
		return s, 0, false
	}
	fmt.Fprintf(errs, "demo: %v; go run ./cmd/demo -help shows the flags\n", err)
	return s, 2, true
}
