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
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/export"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/journal"
	"github.com/mcpvisor/mcpvisor/rules"
)

// Command is `mcpvisor run`.
type Command struct {
	Serving

	UntilUnused bool `help:"End when no MCP session over the socket has been open for 10 seconds. mcpvisor stdio starts its runs with this flag."`
}

// Serving are the options of commands that keep servers running: how their servers are served, and
// what is kept.
type Serving struct {
	HTTP      string   `help:"Serve the page, its API and the probes at this address, as in 127.0.0.1:7777. An address that other machines can reach needs a token: --token-file, or the variable MCPVISOR_TOKEN." name:"http" placeholder:"ADDR"`
	TokenFile string   `help:"File with the token that the page requires." placeholder:"FILE" complete:"file"`
	Controls  bool     `help:"Allow users of the page to call tools and restart servers."`
	Require   []string `help:"Servers that must be ready for /readyz to answer 200. Probes that ask about these need no token (default: all servers; for a node of a fleet: none)." sep:"," placeholder:"NAME" complete:"server"`

	MaxStarts int `help:"How many servers may start at one time (default: 16 for each processor)." placeholder:"N"`

	MCP       string `help:"Serve all servers as one MCP server over Streamable HTTP at this address, as in 127.0.0.1:7788; the path is /mcp. It may be that of --http. An address that other machines can reach needs --mcp-tokens or --mcp-oidc-issuer." name:"mcp" placeholder:"ADDR"`
	MCPTokens string `help:"File with the names and hashes of the tokens that the MCP server asks for; mcpvisor token prints a line of it." name:"mcp-tokens" placeholder:"FILE" complete:"file"`

	MCPOrigins []string `help:"Web sites whose pages may use the MCP server, as in http://localhost:6274; http://localhost:* is any port. \"origins\" of \"gateway\" in the configuration adds others." name:"mcp-origin" sep:"," placeholder:"ORIGIN"`
	MCPHosts   []string `help:"Names beside those of this machine by which clients may address the MCP server, as in host.docker.internal. \"hosts\" of \"gateway\" in the configuration adds others." name:"mcp-host" sep:"," placeholder:"NAME"`

	MCPURL          string   `help:"Address at which clients reach the MCP server, as in https://mcp.example.com/mcp (default: the audience, if it is an address)." name:"mcp-url" placeholder:"URL"`
	MCPOIDCIssuer   string   `help:"Accept the access tokens of this issuer of OpenID Connect, as in https://login.example.com." name:"mcp-oidc-issuer" placeholder:"URL"`
	MCPOIDCAudience string   `help:"What such a token must be made for: the address of the MCP server, or the name that the issuer has for it." name:"mcp-oidc-audience" placeholder:"AUD"`
	MCPOIDCScopes   []string `help:"Scopes that such a token must have." name:"mcp-oidc-scope" sep:"," placeholder:"SCOPE"`
	MCPOIDCProfile  string   `help:"Claim of such a token that names the profile of the client. Without it a token is refused." name:"mcp-oidc-profile-claim" placeholder:"CLAIM"`

	Journal string `help:"File that keeps the calls with a key (mcpvisor call --key, and key of POST api/call) beyond the end of this process, so that each is executed at most once. It is made if it does not exist (default: none for a node of a fleet, otherwise \"journal\" of the configuration)." placeholder:"FILE" complete:"file"`

	Records          string `help:"Directory that keeps a record of each call and event, for mcpvisor calls, events and audit. It is made if it does not exist (default: none for a node of a fleet, otherwise \"records\" of the configuration)." placeholder:"DIR" complete:"file"`
	RecordsAnchor    string `help:"File that says how far the records go, in a place where those who can write the records cannot (default: DIR.anchor)." placeholder:"FILE" complete:"file"`
	RecordsKeyFile   string `help:"File with a secret of at least 16 bytes, without which another anchor cannot be made." placeholder:"FILE" complete:"file"`
	RecordsArguments string `help:"What is kept of the arguments of calls: none, digest (keyed), or whole, without secrets." enum:"none,digest,whole" default:"none" placeholder:"WHAT"`
	RecordsFull      string `help:"What happens when the records have reached their size, or the disk is full: rotate deletes the oldest, drop drops new ones and counts them, block has calls wait." enum:"rotate,drop,block" default:"rotate" placeholder:"WHAT"`
	RecordsSize      int    `help:"The most that the records may take on disk, in MiB." default:"1024" placeholder:"MIB"`

	SocketGroup string `help:"Let the members of this group use the socket of this run, so that their commands use its servers." placeholder:"GROUP"`
}

func (cmd *Command) Run(inv *servers.Opener) error {
	signals := watchHangups(inv)
	defer signals.stop()
	info := newInfo(inv)
	file, err := inv.LoadConfig()
	if err != nil {
		return err
	}
	info.UntilUnused, info.Unusable = cmd.UntilUnused, servers.Unusable(file)
	cmd.warnRequired(inv, file)
	if problem := gatewayProblem(file); problem != "" { // a profile that is read in part would offer too much
		return cli.UsageError("%s", problem)
	}
	if problem := groupsProblem(file); problem != "" { // without them servers would start too early
		return cli.UsageError("%s", problem)
	}
	if len(file.Specs()) == 0 {
		return servers.NoServerError(file)
	}
	cmd.Journal, cmd.Records = cmp.Or(cmd.Journal, file.Journal), cmp.Or(cmd.Records, file.Records)
	return cmd.keepRunning(inv, info, func(info control.Info, kept *keptRecords, options []facade.Option) (*running, error) {
		if g := file.Gateway; g != nil && g.Extensions != nil {
			options = append(options, facade.WithExtensions(g.Extensions))
		}
		guard := new(servers.LockGuard)
		guard.Use(file)
		desk := new(rules.Desk)
		gate := servers.NewGate(file, desk.Ask, kept.decided)
		c, err := facade.New(append(append(options, facade.WithCatalogGuard(guard), facade.WithCallGuard(gate)), keptLists(inv)...)...)
		if err != nil {
			return nil, err
		}
		r := newReloader(inv, c, guard, gate, info, file)
		program := control.Approvals(desk)
		program.Attention, program.Change = r.attention, r.explained.of
		return &running{client: c, printer: r.printer, end: c.Close, close: c.Close,
			served: served{Served: control.Served{Program: program, Reload: r.reload, Settings: r.settings, Withheld: r.withheld, Masks: r.masks},
				usableConfig: r.usableConfig, reloads: r.reloads, onSocket: func(h *control.Handler) { r.socket = h }, info: r.info},
			run: func(ready func()) error {
				if cmd.UntilUnused {
					if err := endUnused(inv, r.socket); err != nil {
						return err
					}
				}
				if err := r.start(inv.Context); err != nil {
					return err
				}
				ready()
				followChanges(inv, r, signals)
				return nil
			}}, nil
	})
}

// keptLists has the client keep what lazy servers offer for the next run of the configuration. Where there is no directory
// for that, each run starts them once.
func keptLists(inv *servers.Opener) []facade.Option {
	dir, noDir := stateDirectory(os.UserCacheDir)
	id, noID := socket.ID(inv.Sources.Key)
	if noDir != nil || noID != nil {
		return nil
	}
	return []facade.Option{facade.WithCatalogStore(mcpvisor.CatalogDir(filepath.Join(dir, "catalogs", id)))}
}

// running is a client of servers that a command keeps running.
type running struct {
	client  *facade.Client
	printer *changePrinter
	served  served
	// run supervises the servers until the end of the command's context, and calls ready when they are
	// supervised. Then end ends them, and the client. close does so at once, without run before.
	run        func(ready func()) error
	end, close func(context.Context) error
}

// keepRunning runs the client that begin makes, with these options, until the command is interrupted. It
// serves it on the socket, the page and the MCP server that the options of the command name, keeps its calls
// in a journal and its calls and events in records if there are paths of them, and prints what happens.
func (cmd *Serving) keepRunning(inv *servers.Opener, info control.Info, begin func(control.Info, *keptRecords, []facade.Option) (*running, error)) error {
	o, err := cmd.open(inv, info)
	if err != nil {
		return err
	}
	defer o.close()
	info.URL, info.MCP = o.urls()
	options, closeJournal, err := cmd.clientOptions(cmd.Journal)
	if err != nil {
		return err
	}
	defer closeJournal()
	kept, err := cmd.openRecords(inv)
	if err != nil {
		return err
	}
	if kept != nil {
		info.Records, _ = filepath.Abs(cmd.Records) // empty without a working directory
	}
	r, err := begin(info, kept, append(options, kept.option()))
	if err != nil {
		return errors.Join(err, kept.close())
	}
	kept.begin(r, cmd.Records)
	o.otlp.PrintBy(r.printer.later)
	serving, closeMetrics, err := o.serve(r.client, r.served)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), servers.CloseTimeout)
		defer cancel()
		return errors.Join(err, r.close(ctx), kept.close())
	}
	defer closeMetrics()
	end := r.end
	r.end = func(ctx context.Context) error {
		o.measured.Flush()
		return end(ctx)
	}
	defer o.followTokens(inv, r.printer)()
	err = supervise(inv, r)
	return errors.Join(err, serving.close(), kept.close())
}

// newInfo describes this process, before its configuration is read.
func newInfo(inv *servers.Opener) control.Info {
	info := control.Info{PID: os.Getpid(), Version: facade.Version(), Started: time.Now().Round(0), Config: inv.Sources.String(), Digest: inv.Sources.Digest()}
	info.Read = info.Started
	return info
}

// opened are the sockets of a command that keeps servers running.
type opened struct {
	own      *socket.Listener // for other commands; nil without one
	page     *page            // nil without one
	endpoint *endpoint        // nil without one
	otlp     *export.OTLP     // nil without one
	measured *export.Metrics  // nil without any, and before serve
	hosts    *clients.Registry
}

// open listens at all addresses that the options name. It takes over from a run of a host only if the others can be used.
func (cmd *Serving) open(inv *servers.Opener, info control.Info) (o *opened, err error) {
	o = &opened{hosts: clients.New()}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	switch o.otlp, err = export.OpenOTLP(&inv.Invocation); {
	case err != nil && info.UntilUnused: // the variables are those of a host, which needs its servers
		inv.Warn("", "nothing is exported: %v", err)
	case err != nil:
		return nil, err
	}
	failed := cmd.openAddresses(inv, o)
	if o.own, err = cmd.listenOnSocket(inv, info, failed); err == nil {
		err = failed
	}
	return o, err
}

func (cmd *Serving) openAddresses(inv *servers.Opener, o *opened) (err error) {
	if o.page, err = cmd.listen(); err != nil {
		return err
	}
	if o.endpoint, err = cmd.listenMCP(inv.Sources); err != nil || o.endpoint == nil {
		return err
	}
	return cmd.useOIDC(inv, o.endpoint, o.page)
}

// followTokens has the MCP server follow the file of its tokens until stop is called.
func (o *opened) followTokens(inv *servers.Opener, printer *changePrinter) (stop func()) {
	if o.endpoint == nil || o.endpoint.tokens == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(inv.Context)
	run, err := o.endpoint.followTokens(ctx, func(text string) { printer.later(func() { inv.Warn("", "%s", text) }) })
	if err != nil {
		cancel()
		inv.Warn("", "%v", err)
		return func() {}
	}
	awaitEnd := startReading(run)
	return func() {
		cancel()
		awaitEnd()
	}
}

// close closes them: after the servers, because until then the configuration is in use.
func (o *opened) close() {
	if o.endpoint != nil && o.endpoint.Listener != nil {
		_ = o.endpoint.Close()
	}
	if o.page != nil {
		_ = o.page.Close()
	}
	if o.own != nil {
		_ = o.own.Close()
	}
}

// urls are the addresses of the page and of the MCP server; empty without one.
func (o *opened) urls() (page, mcp string) {
	if o.page != nil {
		page = o.page.url()
	}
	if o.endpoint != nil {
		mcp = o.endpoint.url(o.page)
	}
	return page, mcp
}

// clientOptions are those of the client. Its journal is closed after it.
func (cmd *Serving) clientOptions(journalPath string) (options []facade.Option, closeJournal func(), err error) {
	options = []facade.Option{facade.WithMaxStarts(cmd.MaxStarts), control.Declared, control.Extensions}
	if journalPath == "" {
		return options, func() {}, nil
	}
	calls, err := journal.Open(journalPath, journal.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("the calls with a key: %w", err)
	}
	closeJournal = func() { _ = calls.Close() } // all that was written is on the disk
	return append(options, facade.WithJournal(calls, mcpvisor.JournalKeepAll)), closeJournal, nil
}

// warnRequired warns of required servers that the files do not have, because no probe would
// ever find them ready.
func (cmd *Serving) warnRequired(inv *servers.Opener, file *config.File) {
	for _, name := range cmd.Require {
		if !slices.ContainsFunc(file.Servers, func(s config.Server) bool { return s.Spec.Name == name }) && !slices.Contains(file.Broken(), name) {
			inv.Warn(name, "--require %s: config %s has no server of that name, so /readyz answers 503 until it has one", name, file.Path)
		}
	}
}

// supervise runs the servers until the end of the command's context, prints what happens to them, and
// ends them.
func supervise(inv *servers.Opener, r *running) error {
	service := newService(inv, r.client)
	defer func() { _ = service.close() }()
	// The watch outlives the interrupt, so that events of the end are printed too.
	events := r.client.Watch(context.WithoutCancel(inv.Context))
	printed := make(chan error, 1)
	failed := r.printer.begin(r.served.info)
	go func() {
		printed <- r.printer.run(events, func(ev mcpvisor.Event) {
			if !ev.Kind.FromServer() {
				service.update()
			}
		})
	}()
	ran := r.run(service.ready)
	service.stopping()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), servers.CloseTimeout)
	defer cancel()
	closed := r.end(ctx)
	failed = errors.Join(failed, closed)
	if closed == nil { // otherwise the watch may never end
		failed = errors.Join(failed, <-printed, r.printer.end(time.Since(began)))
	}
	if failed != nil {
		return failed
	}
	return ran
}

// endOfReading is how long the end of the command waits for a reading of the configuration.
const endOfReading = 2 * time.Second

// followChanges reads the configuration again when its files change and at each SIGHUP, until
// the command is interrupted. A file system that hangs does not delay that end.
func followChanges(inv *servers.Opener, r *reloader, signals *hangups) {
	awaitEnd := startReading(func() { followUntil(inv, r, signals) })
	<-inv.Context.Done()
	awaitEnd()
}

// startReading starts a reading. awaitEnd waits for its end, for endOfReading at most: a file system may hang.
func startReading(read func()) (awaitEnd func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		read()
	}()
	return func() {
		select {
		case <-ended:
		case <-time.After(endOfReading):
		}
	}
}

// followUntil is followChanges without a bound of its end.
func followUntil(inv *servers.Opener, r *reloader, signals *hangups) {
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
