package facade

import (
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/dial"
)

// Option configures a [Client]. Of options that set the same thing the last one
// counts.
type Option func(*options)

// options are what New was given. They do not change afterwards.
type options struct {
	logger         zerolog.Logger // never panics, whatever the host's logger does
	clientInfo     *mcp.Implementation
	callTimeout    time.Duration
	waitReady      bool
	stickyTools    bool
	validation     bool
	maxBufferBytes int
	maxStarts      int // 0: actors.DefaultMaxStarts
	handlers       transport.Handlers
	elicitations   *elicitationFollowers
	observer       monitor.Observer        // nil: none
	ended          func(monitor.EndedCall) // nil: ended calls are not reported
	endedArguments bool                    // ended gets the arguments
	interceptors   []Interceptor           // nil: none; the first is the outermost
	roots          *transport.Roots        // nil: the client declares no roots
	journal        journalOption
	catalogs       mcpvisor.CatalogStore // nil: none
	guard          mcpvisor.CatalogGuard // nil: everything is listed
	callGuard      mcpvisor.CallGuard    // nil: every call is sent
	dialer         *dial.Hook            // nil: none
	era            mcpvisor.Era          // of servers whose spec leaves it open
	err            error                 // what is wrong with the options, for New to return
}

// apply changes options as the caller has asked for, and checks them.
func (o *options) apply(opts []Option) error {
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
	followElicitations(o)
	if o.err == nil {
		o.err = o.journal.check()
	}
	return o.err
}

// WithLogger sends the client's log to a zerolog logger: every supervision event
// (evictions and parking as errors, ends and retries as warnings), log messages of
// servers, calls that take 5 s or longer, handlers that fail, and protocol violations
// of servers. A panic of the logger costs one line. Default: no log.
func WithLogger(l zerolog.Logger) Option {
	return func(o *options) { o.logger = newZerologLogger(l) }
}

// WithSlog sends the client's log to an slog logger, in place of [WithLogger]: the same
// events, with the same fields as attributes and with the level of the same name. The
// logger's handler decides which levels are logged. nil means no log.
func WithSlog(l *slog.Logger) Option {
	return func(o *options) {
		if l == nil {
			o.logger = zerolog.Nop()
			return
		}
		o.logger = newSlogLogger(l.Handler())
	}
}

// WithClientInfo sets the name and version that the client sends to servers in the
// handshake. Default: "mcpvisor" and [Version].
func WithClientInfo(name, version string) Option {
	return func(o *options) { o.clientInfo = &mcp.Implementation{Name: name, Version: version} }
}

// WithDefaultCallTimeout sets the timeout of calls that are made without
// [WithTimeout], in place of each server's Timeouts.Call. Default: 0, which leaves that
// to Timeouts.Call. A negative value means no such bound, as in [WithTimeout].
func WithDefaultCallTimeout(d time.Duration) Option {
	return func(o *options) { o.callTimeout = d }
}

// WithDefaultWaitReady makes every call wait for a server that is not ready, as
// [WithWaitReady] does for one call: only its context bounds that wait, so give each call a
// deadline. Default: such calls fail at once.
func WithDefaultWaitReady() Option { return func(o *options) { o.waitReady = true } }

// WithStickyTools keeps the tools of a server that is down in [Client.Tools], [Client.AllTools]
// and [Client.Tool], with [mcpvisor.Tool].Unavailable set, as long as its policy may start it
// again: what a language model is given stays the same over a crash, and the provider's prompt
// cache holds. The tools leave the list when the server is evicted, unauthorized or unregistered,
// and the first list of the next incarnation replaces them. It does not change calls: they fail
// with ErrUnavailable while the server is down, or wait with [WithWaitReady]. It costs no memory,
// because the last list of each server is kept anyway. Default: a server that is down has no
// tools.
func WithStickyTools() Option { return func(o *options) { o.stickyTools = true } }

// defaultClientBufferBytes is the default of [WithMaxBufferBytes].
const defaultClientBufferBytes = 512 << 20

// WithMaxBufferBytes bounds the memory, in bytes, of the large messages (64 KiB or
// more) of all servers together, while they are read and decoded.
// Limits.MaxBufferBytes bounds each server. One message of each server may exceed the
// bound, so that no server waits for another; further messages wait for room. Default,
// and for values below 1: 512 MiB, or a quarter of the memory that this process may use by GOMEMLIMIT or its
// cgroup, if that is less.
func WithMaxBufferBytes(n int) Option { return func(o *options) { o.maxBufferBytes = n } }

// WithMaxStarts bounds how many subprocess servers start at the same time: the first starts of a
// configuration with hundreds of servers, their retries, restarts and standbys. Others wait, in
// order, in the state connecting; Timeouts.Start begins after that wait. A start counts until the
// handshake is complete, for 10 s at most, so that servers that hang delay the others no longer
// than that. Of those by package runners, such as npx and uvx, three start at a time, or one for each processor
// that Go uses if that is more, and each counts for 30 s at most. It also bounds how many first starts, of servers of any kind, [Client.Register]
// and [Client.Apply] wait for at the same time. Default, and for values below 1: 16 for each
// processor that Go uses.
func WithMaxStarts(n int) Option { return func(o *options) { o.maxStarts = max(n, 0) } }

// startsAtOnce is how many starts run at one time.
func (o *options) startsAtOnce() int {
	if o.maxStarts > 0 {
		return o.maxStarts
	}
	return actors.DefaultMaxStarts()
}
