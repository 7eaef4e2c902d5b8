// Command demo runs three MCP servers, kills them, and checks everything that it
// prints. It needs neither network nor configuration: the servers are this
// binary, executed again.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/term"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

func main() {
	mcptest.Main() // a re-executed process is a server, and does not return
	var s settings
	flag.Int64Var(&s.seed, "seed", time.Now().UnixNano()%1_000_000, "seed of the storm; a failure prints it")
	noColor := flag.Bool("no-color", false, "no colours")
	flag.DurationVar(&s.storm, "storm", 4*time.Second, "length of the storm")
	flag.DurationVar(&s.pace, "pace", 500*time.Millisecond, "pause between steps, so that the output can be read")
	flag.Var(addressFlag{&s.http}, "http", "serve the page of the servers, at 127.0.0.1:7777 or at `address` (--http=address), and stay until interrupted")
	flag.Parse()
	extra := flag.Args()
	if s.http == defaultAddress && len(extra) == 1 { // --http address
		s.http, extra = extra[0], nil
	}
	if len(extra) > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q; see demo -help\n", extra[0])
		os.Exit(2)
	}
	p := newPrinter(os.Stdout)
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		p.color = !*noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(fd); err == nil {
			p.width = width
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, p, s)
	stop()
	os.Exit(code)
}
