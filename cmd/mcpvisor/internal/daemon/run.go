// Package daemon has the command of mcpvisor that keeps servers running: it supervises them,
// prints what happens, serves the socket for other commands and the page, and tells the service
// manager.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/journal"
	"github.com/mcpvisor/mcpvisor/web"
)

// Command is `mcpvisor run`.
type Command struct {
	HTTP      string   `help:"Serve the page, its API and the probes at this address, as in 127.0.0.1:7777. An address that other machines can reach needs a token: --token-file, or the variable MCPVISOR_TOKEN." name:"http" placeholder:"ADDR"`
	TokenFile string   `help:"File with the token that the page requires." placeholder:"FILE" complete:"file"`
	Controls  bool     `help:"Allow users of the page to call tools and restart servers."`
	Require   []string `help:"Servers that must be ready for /readyz to answer 200. Probes that ask about these need no token (default: all servers)." sep:"," placeholder:"NAME" complete:"server"`

	MaxStarts int `help:"How many servers may start at one time (default: 16 for each processor)." placeholder:"N"`

	MCP       string `help:"Serve all servers as one MCP server over Streamable HTTP at this address, as in 127.0.0.1:7788; the path is /mcp. It may be that of --http. An address that other machines can reach needs --mcp-tokens." name:"mcp" placeholder:"ADDR"`
	MCPTokens string `help:"File with the names and hashes of the tokens that the MCP server asks for; mcpvisor token prints a line of it." name:"mcp-tokens" placeholder:"FILE" complete:"file"`

	MCPURL          string   `help:"Address at which clients reach the MCP server, as in https://mcp.example.com/mcp (default: the audience, if it is an address)." name:"mcp-url" placeholder:"URL"`
	MCPOIDCIssuer   string   `help:"Accept the access tokens of this issuer of OpenID Connect, as in https://login.example.com." name:"mcp-oidc-issuer" placeholder:"URL"`
	MCPOIDCAudience string   `help:"What such a token must be made for: the address of the MCP server, or the name that the issuer has for it." name:"mcp-oidc-audience" placeholder:"AUD"`
	MCPOIDCScopes   []string `help:"Scopes that such a token must have." name:"mcp-oidc-scope" sep:"," placeholder:"SCOPE"`
	MCPOIDCProfile  string   `help:"Claim of such a token that names the profile of the client. Without it a token is refused." name:"mcp-oidc-profile-claim" placeholder:"CLAIM"`

	Journal string `help:"File that keeps the calls with a key (mcpvisor call --key, and key of POST api/call) beyond the end of this process, so that each is executed at most once. It is made if it does not exist (default: \"journal\" of the configuration)." placeholder:"FILE" complete:"file"`

	UntilUnused bool `help:"End when no MCP session over the socket has been open for 10 seconds. mcpvisor stdio starts its runs with this flag."`

	SocketGroup string `help:"Let the members of this group use the socket of this run, so that their commands use its servers." placeholder:"GROUP"`
}

// Run implements kong's command.
func (cmd *Command) Run(inv *servers.Opener) error {
	signals := watchHangups(inv)
	defer signals.stop()
	info := control.Info{PID: os.Getpid(), Version: facade.Version(), Started: time.Now().Round(0), Config: inv.Sources.String(), Digest: inv.Sources.Digest()}
	info.Read = info.Started
	file, err := inv.LoadConfig()
	if err != nil {
		return err
	}
	cmd.warnRequired(inv, file)
	if problem := gatewayProblem(file); problem != "" { // a profile that is read in part would offer too much
		return cli.UsageError("%s", problem)
	}
	if len(file.Specs()) == 0 {
		return servers.NoServerError(file)
	}
	own, err := cmd.listenOnSocket(inv)
	if err != nil {
		return err
	}
	if own != nil {
		defer func() { _ = own.Close() }() // after the servers: until then the configuration is in use
	}
	page, err := cmd.listen()
	if err != nil {
		return err
	}
	if page != nil {
		info.URL = page.url()
		defer func() { _ = page.Close() }()
	}
	endpoint, err := cmd.listenMCP()
	if err != nil {
		return err
	}
	if endpoint != nil {
		if err := cmd.useOIDC(inv, endpoint, page); err != nil {
			return err
		}
		info.MCP = endpoint.url(page)
		if endpoint.Listener != nil {
			defer func() { _ = endpoint.Close() }()
		}
	}
	c, closeJournal, err := cmd.newClient(cmp.Or(cmd.Journal, file.Journal))
	if err != nil {
		return err
	}
	defer closeJournal()
	r := newReloader(inv, c, info, file)
	hosts := clients.New()
	if page != nil { // metrics are read from the page only
		measured, err := newMetrics(c, r.usableConfig, hosts)
		if err != nil {
			_ = c.Close(context.Background()) // it has no servers yet
			return err
		}
		defer func() { _ = measured.Close() }()
		page.options = append(page.options, web.WithMetrics(measured.Handler()), web.WithAttention(r.attention), web.WithGateway(hosts.Status))
	}
	serving, err := serve(c, hosts, r, own, page, endpoint)
	if err != nil {
		_ = c.Close(context.Background()) // it has no servers yet
		return err
	}
	if cmd.UntilUnused {
		if err := endUnused(inv, r.socket); err != nil {
			_ = c.Close(context.Background()) // it has no servers yet
			return errors.Join(err, serving.close())
		}
	}
	return errors.Join(supervise(inv, c, r, signals), serving.close())
}

// newClient makes the client with its journal, which is closed after the client.
func (cmd *Command) newClient(journalPath string) (c *facade.Client, closeJournal func(), err error) {
	starts := facade.WithMaxStarts(cmd.MaxStarts)
	if journalPath == "" {
		c, err = facade.New(starts, control.Declared)
		return c, func() {}, err
	}
	calls, err := journal.Open(journalPath, journal.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("the calls with a key: %w", err)
	}
	closeJournal = func() { _ = calls.Close() } // all that was written is on the disk
	if c, err = facade.New(starts, control.Declared, facade.WithJournal(calls, mcpvisor.JournalKeepAll)); err != nil {
		closeJournal()
	}
	return c, closeJournal, err
}

// warnRequired warns of required servers that the files do not have, because no probe would
// ever find them ready.
func (cmd *Command) warnRequired(inv *servers.Opener, file *config.File) {
	for _, name := range cmd.Require {
		if !slices.ContainsFunc(file.Servers, func(s config.Server) bool { return s.Spec.Name == name }) && !slices.Contains(file.Broken(), name) {
			inv.Warn(name, "--require %s: config %s has no server of that name, so /readyz answers 503 until it has one", name, file.Path)
		}
	}
}

// supervise runs the servers until the command is interrupted, and prints what happens to
// them.
func supervise(inv *servers.Opener, c *facade.Client, r *reloader, signals *hangups) error {
	service := newService(inv, c)
	defer service.close()
	// The watch outlives the interrupt, so that events of the end are printed too.
	events := c.Watch(context.WithoutCancel(inv.Context))
	printed := make(chan error, 1)
	failed := r.printer.begin(r.info)
	go func() {
		printed <- r.printer.run(events, func(ev mcpvisor.Event) {
			if !ev.Kind.FromServer() {
				service.update()
			}
		})
	}()
	applied := r.start(inv.Context)
	if applied == nil {
		service.ready()
		followChanges(inv, r, signals)
	}
	service.stopping()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), servers.CloseTimeout)
	defer cancel()
	closed := c.Close(ctx)
	failed = errors.Join(failed, closed)
	if closed == nil { // otherwise the watch may never end
		failed = errors.Join(failed, <-printed, r.printer.end(time.Since(began)))
	}
	if failed != nil {
		return failed
	}
	return applied
}

// followChanges reads the configuration again when its files change and at each SIGHUP, until
// the command is interrupted.
func followChanges(inv *servers.Opener, r *reloader, signals *hangups) {
	var wg sync.WaitGroup
	defer wg.Wait()
	f, err := newFollower(r.files())
	if err != nil {
		inv.Warn("", "changes of %s are not noticed (%v); mcpvisor reload makes this run read it again", inv.Sources, err)
	}
	if f != nil {
		wg.Go(func() { f.run(inv.Context, r.changed) })
	}
	for {
		select {
		case <-signals.received:
			r.reload(false)
		case <-inv.Context.Done():
			return
		}
	}
}

// listenOnSocket makes the socket for other commands. Without one, which it warns of, the
// servers run anyway. It is an error if the configuration has a `mcpvisor run`
// already, or if the group of the socket cannot be set.
func (cmd *Command) listenOnSocket(inv *servers.Opener) (*socket.Listener, error) {
	path, err := socket.Path(inv.Sources.Key)
	if err == nil {
		var l *socket.Listener
		if l, err = socket.Listen(path, cmd.SocketGroup); err == nil {
			return l, nil
		}
	}
	if inUse := (*socket.InUseError)(nil); errors.As(err, &inUse) {
		return nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed,
			Message: inUse.Error() + "; mcpvisor status shows its servers, and an interrupt ends it"}}
	}
	if cmd.SocketGroup != "" {
		return nil, fmt.Errorf("--socket-group %s: %w", cmd.SocketGroup, err)
	}
	inv.Warn("", "other commands cannot attach to this run: %v", err)
	return nil, nil //nolint:nilnil // it was warned of
}
