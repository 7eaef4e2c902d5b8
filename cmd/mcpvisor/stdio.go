package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/bridge"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/daemon"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type stdioCmd struct {
	Profile string `help:"Offer what this profile of the configuration offers (default: everything)." placeholder:"NAME"`
	NoStart bool   `help:"Do not start mcpvisor run: wait until it is running."`
}

func (cmd *stdioCmd) Run(inv *invocation) error {
	d := &runDialer{inv: inv, profile: cmd.Profile, start: !cmd.NoStart}
	err := bridge.Run(inv.Context, inv.In, inv.Out, bridge.Options{Dial: d.dial, Log: d.log})
	if errors.Is(err, context.Canceled) { // hosts end their servers by a signal
		return nil
	}
	return err
}

const (
	// returnTimeout is how long a run that has ended may take to come back before another one is
	// started in its place.
	returnTimeout = 5 * time.Second
	// startTimeout bounds how long a run takes until it accepts sessions.
	startTimeout = 30 * time.Second
	// dialPoll is the pause between attempts to reach a run that starts.
	dialPoll = 50 * time.Millisecond
)

// runDialer opens sessions with the `mcpvisor run` of the configuration. One goroutine uses it.
type runDialer struct {
	inv     *invocation
	profile string // empty: everything
	start   bool   // start a run if none is running
	// returns: the run that was reached last is one of the user's own, who may be restarting it.
	returns bool
	last    string
}

// log prints what happens to connections, each line once in a row.
func (d *runDialer) log(format string, args ...any) {
	line := display.Text(fmt.Sprintf(format, args...))
	if line != d.last {
		d.last = line
		_, _ = fmt.Fprintln(d.inv.Err, "mcpvisor:", line)
	}
}

// dial opens a session. It starts a run if none serves, or if the last one ended and does not come back. Of the processes
// that find no run, that with the lock starts one, and the others wait for it.
func (d *runDialer) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	var started *daemon.Started
	var ended <-chan struct{}
	var unlock func()
	startAt := time.Now()
	if d.returns || !d.start {
		startAt = startAt.Add(returnTimeout)
	}
	until := startAt.Add(startTimeout)
	if !d.start {
		until = startAt
	}
	for {
		session, err := attach.DialMCP(ctx, d.inv.Sources.Key, d.profile)
		stopping := errors.Is(err, attach.ErrStopping)
		switch {
		case err == nil:
			if d.returns = !session.UntilUnused; started != nil {
				d.log("started mcpvisor run; it writes to %s", started.Log)
			}
			return session, nil
		case !stopping && !errors.Is(err, attach.ErrNotRunning):
			return nil, err
		case stopping && d.start && started == nil: // it ends within a time of its own
			until = time.Now().Add(startTimeout)
		case !time.Now().Before(until):
			return nil, d.absent(started, err)
		case unlock != nil && started == nil:
			if started, err = daemon.Start(d.inv.Sources); err != nil {
				return nil, err
			}
			ended = started.Ended
		case d.start && unlock == nil && !time.Now().Before(startAt):
			if unlock, err = socket.LockStart(d.inv.Sources.Key); err != nil {
				return nil, err
			}
			if unlock != nil {
				defer unlock() // once
				continue       // another process may have started a run before it released the lock
			}
		}
		select {
		case <-ended: // a little longer: a run of the user may have been started at the same time
			ended, until = nil, time.Now().Add(time.Second)
		default:
		}
		if err := backoff.Sleep(ctx, dialPoll); err != nil {
			return nil, err
		}
	}
}

// absent says why no run accepts a session. started is the one that was started; nil without one.
func (d *runDialer) absent(started *daemon.Started, err error) error {
	switch {
	case !d.start:
		return err
	case started == nil:
		return fmt.Errorf("another process starts mcpvisor run, or takes over from one, and it has not accepted a session within %v", startTimeout)
	}
	select {
	case <-started.Ended:
		return started.Reason()
	default:
		return fmt.Errorf("mcpvisor run has not accepted a session within %v; see %s", startTimeout, started.Log)
	}
}

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
	c, err := facade.New(declared, control.Extensions, questions.Option(), facade.WithSlog(slog.New(slog.NewTextHandler(inv.Err, nil))))
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
		spec.HTTP = &mcpvisor.HTTP{URL: words[0], Headers: map[string]string{}}
		for _, header := range cmd.Header {
			name, value, err := cli.ParseHeader(header)
			if err != nil {
				return spec, err
			}
			spec.HTTP.Headers[name] = value
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
