package facade

import (
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Option adjusts a [Client].
type Option func(*options)

type options struct {
	logger      zerolog.Logger
	clientInfo  *mcp.Implementation
	callTimeout time.Duration
	waitReady   bool
	random      func() float64
	buffer      int
	handlers    transport.Handlers
	roots       *transport.Roots // nil: none are declared
	wrong       error            // what options cannot work
}

// WithLogger sets the logger. It gets every supervision event (evictions and
// parking as errors, ends and retries as warnings), what servers log, slow calls,
// handlers that fail, and what servers do that they should not. What a server
// writes to stderr comes with the causes. Default: none.
func WithLogger(l zerolog.Logger) Option { return func(o *options) { o.logger = l } }

// WithClientInfo sets how the client names itself to servers. Default:
// mcpvisor and its version.
func WithClientInfo(name, version string) Option {
	return func(o *options) { o.clientInfo = &mcp.Implementation{Name: name, Version: version} }
}

// WithDefaultCallTimeout sets the default of [WithTimeout], over each server's
// Timeouts.Call. Default: 0, the server's.
func WithDefaultCallTimeout(d time.Duration) Option { return func(o *options) { o.callTimeout = d } }

// WithDefaultWaitReady makes every call wait for a server that is down, as [WaitReady]
// does for one call.
func WithDefaultWaitReady() Option { return func(o *options) { o.waitReady = true } }

// DefaultMaxBufferBytes is the default of [WithBuffer].
const DefaultMaxBufferBytes = 512 << 20

// WithMaxBufferBytes sets how many bytes the large messages (64 KiB or more) of all
// servers may hold at a time, while they are read and while results are decoded;
// Limits.Buffer bounds each server for itself. One message of each server may be
// beyond it, so that no server waits for another; further ones wait for room.
// Default: 512 MiB; less than 1 means the default.
func WithMaxBufferBytes(bytes int) Option { return func(o *options) { o.buffer = bytes } }

// WithRandom sets the source of jitter: numbers in [0, 1). For tests. It is
// called by one goroutine at a time. A number out of range counts as the nearest
// end of it, NaN and a panic of f as the middle. Default, and with nil: math/rand.
func WithRandom(f func() float64) Option {
	var mu sync.Mutex
	return func(o *options) {
		if o.random = nil; f == nil {
			return
		}
		o.random = func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return f()
		}
	}
}

// CallOption adjusts one call.
type CallOption func(*callOptions)

type callOptions struct {
	timeout   time.Duration
	waitReady bool
	progress  func(mcpvisor.Progress)
}

// WithWaitReady lets the call wait for the next time that its server is ready,
// bounded by the call's context, instead of failing at once with
// ErrUnavailable. Waiting does not use up the call's timeout.
func WithWaitReady() CallOption { return func(o *callOptions) { o.waitReady = true } }

// WithProgress has the server's progress reports about this call handed to f,
// in order, in the goroutine that makes the call, and all of them before the
// call returns. While f runs the call cannot end; nothing else waits for it. If f
// panics, the call is given up, and the panic goes on in that goroutine. Messages
// beyond 8 KiB are cut; what f does not keep up with is dropped beyond 8,192
// reports or 1 MiB. Each report restarts the call's timeout, with or without
// WithProgress.
func WithProgress(f func(mcpvisor.Progress)) CallOption {
	return func(o *callOptions) { o.progress = f }
}

// WithTimeout bounds this call: its time without progress. 0 is the default, less
// than 0 no such bound. The server's Timeouts.HardMax bounds the call as a whole
// all the same.
func WithTimeout(d time.Duration) CallOption { return func(o *callOptions) { o.timeout = d } }
