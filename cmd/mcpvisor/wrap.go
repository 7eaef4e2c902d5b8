package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
)

type wrapCmd struct {
	Header []string `help:"Header of requests to an address, as 'Name: value'." sep:"none" placeholder:"HEADER"`
	Args   []string `arg:"" optional:"" help:"The address of the server, or -- and a command with its arguments."`

	ready time.Duration // in place of readyTimeout, for tests
}

// Help is the end of `mcpvisor wrap --help`.
func (*wrapCmd) Help() string {
	return `Write it before the command in the configuration of a host:

  "command": "mcpvisor", "args": ["wrap", "--", "npx", "-y", "@modelcontextprotocol/server-everything"]

The server gets the whole environment of this command, and its tools keep their names. Its stderr, and what happens to it, is printed to stderr.`
}

// readyTimeout is how long wrap waits for the first start of its server before it answers. A host
// that reads the lists once finds them complete.
const readyTimeout = 20 * time.Second

// lastWait is how long wrap still waits for the first start when the host has closed its end. What
// the host wrote before, as a script does, is answered if the server is ready by then.
const lastWait = 2 * time.Second

func (cmd *wrapCmd) Run(inv *invocation) error {
	spec, err := cmd.spec(inv)
	if err != nil {
		return err
	}
	var questions gateway.StandaloneQuestions
	c, err := facade.New(declared, questions.Option(), facade.WithSlog(slog.New(slog.NewTextHandler(inv.Err, nil))))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), servers.CloseTimeout)
		defer cancel()
		_ = c.Close(ctx) // the log has what it says
	}()
	if err := c.Register(inv.Context, spec); err != nil {
		return cli.UsageError("%v", err)
	}
	if err := cmd.awaitReady(c, spec.Name, inv); errors.Is(err, mcpvisor.ErrEvicted) || errors.Is(err, mcpvisor.ErrAuthRequired) {
		return &cli.ExitError{Code: cli.ExitUnavailable, Report: cli.Report{Kind: cli.KindFailed, Message: err.Error()}}
	}
	err = gateway.Serve(inv.Context, gateway.Transport(c, gateway.WithNames(gateway.Names{Prefix: gateway.PrefixNever}), gateway.WithStandaloneQuestions(&questions)), peerOf(inv))
	if errors.Is(err, context.Canceled) { // hosts end their servers by a signal
		return nil
	}
	return err
}

// awaitReady waits for the first start of the server. It reads nothing from the host.
func (cmd *wrapCmd) awaitReady(c *facade.Client, name string, inv *invocation) error {
	ctx, cancel := context.WithTimeout(inv.Context, cmp.Or(cmd.ready, readyTimeout))
	defer cancel()
	go func() {
		if awaitHangup(ctx, inv.In) {
			time.AfterFunc(lastWait, cancel)
		}
	}()
	return c.WaitReady(ctx, name)
}

// peerOf leads to the host. A gateway serves that faster on files than on other streams.
func peerOf(inv *invocation) mcp.Transport {
	if inv.In == io.Reader(os.Stdin) && inv.Out == io.Writer(os.Stdout) {
		return &mcp.StdioTransport{}
	}
	return &mcp.IOTransport{Reader: io.NopCloser(inv.In), Writer: writeNopCloser{inv.Out}}
}

// declared is what the server learns of the host before that has said what it answers. There is one host, so the
// server is told when its roots have changed.
var declared = facade.WithDeclared(facade.Declared{Sampling: true, SamplingTools: true, Elicitation: true, URLElicitation: true, Roots: true, RootsListChanged: true})

// writeNopCloser is a writer that stays open.
type writeNopCloser struct{ io.Writer }

func (writeNopCloser) Close() error { return nil }

func (cmd *wrapCmd) spec(inv *invocation) (mcpvisor.ServerSpec, error) {
	spec := mcpvisor.ServerSpec{Policy: config.DefaultRetry, StartSupervised: true}
	words := inv.Words
	if words == nil {
		words = cmd.Args
	}
	switch {
	case len(words) == 0:
		return spec, cli.UsageError("name the server, as in: mcpvisor wrap -- npx -y @modelcontextprotocol/server-everything")
	case inv.Words == nil && len(words) == 1 && strings.Contains(words[0], "://"):
		spec.HTTP = &mcpvisor.HTTP{URL: words[0]}
		for _, header := range cmd.Header {
			name, value, ok := strings.Cut(header, ":")
			if !ok || strings.TrimSpace(name) == "" {
				return spec, cli.UsageError("a --header has no colon; write it as 'Name: value'")
			}
			if spec.HTTP.Headers == nil {
				spec.HTTP.Headers = map[string]string{}
			}
			spec.HTTP.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
		spec.Name = "server"
	case len(cmd.Header) > 0:
		return spec, cli.UsageError("--header is for the address of a server, and %s is a program; leave it out", words[0])
	default:
		spec.Stdio = &mcpvisor.Stdio{Command: words[0], Args: words[1:], InheritEnv: true}
		spec.Name = mcpvisor.SuggestServerName(filepath.Base(words[0]))
	}
	if spec.Name == "" {
		spec.Name = "server"
	}
	return spec, nil
}
