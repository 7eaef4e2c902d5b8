package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/export"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/web"
)

// TokenVariable is the environment variable with the token of the page.
const TokenVariable = "MCPVISOR_TOKEN" //nolint:gosec // a name

const (
	// headerTimeout bounds how long a client may take to send the head of a request.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection without a request is kept.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes bounds the head of a request: the default of net/http is 1 MiB.
	maxHeaderBytes = 64 << 10
	// shutdownTimeout is how long requests may take to end when the servers have stopped.
	shutdownTimeout = 2 * time.Second
)

// page is the address that the page is served at, and who may use it.
type page struct {
	net.Listener
	options []web.Option
}

// listen listens at the address of --http. It returns nil without one. An address that
// other machines can reach is refused without a token, before it is listened at.
func (cmd *Serving) listen() (*page, error) {
	if cmd.HTTP == "" {
		if cmd.TokenFile != "" || cmd.Controls || len(cmd.Require) > 0 {
			return nil, cli.UsageError("--token-file, --controls and --require are about the page; set its address with --http")
		}
		return nil, nil //nolint:nilnil // no page was asked for
	}
	address, err := net.ResolveTCPAddr("tcp", cmd.HTTP)
	if err != nil {
		return nil, cli.UsageError("--http %q is not an address: %v; write for instance 127.0.0.1:7777", cmd.HTTP, err)
	}
	token, err := cmd.token()
	if err != nil {
		return nil, err
	}
	p := &page{options: []web.Option{web.WithTitle("mcpvisor")}}
	switch {
	case token != "":
		// The token protects from foreign pages that resolve to this machine, too: their
		// requests do not have it.
		p.options = append(p.options, web.WithToken(token), web.WithHosts("*"))
	case !address.IP.IsLoopback():
		return nil, cli.UsageError("--http %s can be reached from other machines, so it needs a token; set --token-file or %s, or listen on 127.0.0.1", cmd.HTTP, TokenVariable)
	}
	if cmd.Controls {
		p.options = append(p.options, web.WithControls())
	}
	if len(cmd.Require) > 0 {
		p.options = append(p.options, web.WithRequired(cmd.Require...))
	}
	if p.Listener, err = net.ListenTCP("tcp", address); err != nil {
		return nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: fmt.Sprintf("the page cannot be served: %v; choose another port", err)}}
	}
	return p, nil
}

// token returns the token of the page: of the file, or else of the variable. It is empty
// without both.
func (cmd *Serving) token() (string, error) {
	if cmd.TokenFile == "" {
		return strings.TrimSpace(os.Getenv(TokenVariable)), nil
	}
	text, err := regularfile.Read(cmd.TokenFile, maxTokensFile)
	if err != nil {
		return "", cli.UsageError("the token cannot be read: %v", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", cli.UsageError("token file %s is empty; write a secret into it, for instance with: openssl rand -hex 32", cmd.TokenFile)
	}
	return token, nil
}

func (p *page) url() string { return urlOf(p) }

func urlOf(l net.Listener) string {
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return "http://" + l.Addr().String() + "/"
	}
	host := address.IP.String()
	if address.IP.IsUnspecified() {
		host = "localhost"
	}
	return fmt.Sprintf("http://%s/", net.JoinHostPort(host, fmt.Sprint(address.Port)))
}

type serving struct {
	servers  []*http.Server
	handlers []interface{ Close() } // which end their streams
	wg       sync.WaitGroup
}

// served is what the page, the socket and the gateways need of one client, which runs servers of its own or belongs to a
// node of a fleet.
type served struct {
	control.Served
	usableConfig func() float64
	reloads      func() map[string]int64 // by result; nil: the files are not read again
	collectors   []prometheus.Collector  // metrics of a fleet
	pageOptions  []web.Option            // further ones of the page
	leaving      func() bool             // see api.Program; nil: never
	// onSocket is called with the handler of the socket, if there is one, before that is served.
	onSocket func(*control.Handler)
	info     control.Info
}

// serve serves a client of servers on its socket, at the address of the page, and as an MCP server,
// as far as these were opened. closeMetrics is called after the client was closed.
func (o *opened) serve(c *facade.Client, of served) (s *serving, closeMetrics func(), err error) {
	closeMetrics = func() {}
	var measured *export.Metrics
	if o.page != nil || o.otlp != nil {
		if measured, err = export.Measure(c, export.Source{Hosts: o.hosts.Status, UsableConfig: of.usableConfig, Reloads: of.reloads, Collectors: of.collectors}, o.otlp); err != nil {
			return nil, closeMetrics, err
		}
		closeMetrics = func() { _ = measured.Close() }
		o.measured = measured
	}
	if p := o.page; p != nil {
		program := of.Program
		program.Leaving, program.Terms, program.Mask = of.leaving, cli.ConfigTerms, of.Masks.Text
		p.options = append(p.options, of.pageOptions...)
		p.options = append(p.options, web.WithMetrics(measured.Handler()), web.WithGateway(o.hosts.Status), web.WithProgram(program))
	}
	s = new(serving)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			closeMetrics()
		}
	}()
	if o.own != nil {
		of.Hosts = o.hosts
		of.Key, _ = o.own.Key() // without one a call that waits for a host is lost with this process
		h, err := control.New(c, of.Served, of.info)
		if err != nil {
			return s, closeMetrics, err
		}
		of.onSocket(h)
		s.handlers = append(s.handlers, h)
		s.start(o.own, h)
	}
	var mcp *mcpServer
	if e := o.endpoint; e != nil {
		mcp = e.handler(c, of.Settings, o.hosts, of.info.Servers)
		s.handlers = append(s.handlers, mcp)
		if e.Listener != nil {
			s.start(e, e.atPath(mcp, nil))
		}
	}
	if p := o.page; p != nil {
		h, err := web.New(c, p.options...)
		if err != nil {
			return s, closeMetrics, err
		}
		s.handlers = append(s.handlers, h)
		if mcp != nil && o.endpoint.Listener == nil {
			s.start(p, o.endpoint.atPath(mcp, h))
		} else {
			s.start(p, h)
		}
	}
	return s, closeMetrics, nil
}

func (s *serving) start(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(io.Discard, "", 0)}
	s.servers = append(s.servers, server)
	s.wg.Go(func() { _ = server.Serve(l) }) // its error says only that it was closed
}

func (s *serving) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	for _, h := range s.handlers {
		h.Close()
	}
	var failed error
	for _, server := range s.servers {
		if err := server.Shutdown(ctx); err != nil {
			failed = errors.Join(failed, server.Close())
		}
	}
	s.wg.Wait()
	return failed
}
