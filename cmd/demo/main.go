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
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q; see demo -help\n", flag.Arg(0))
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
