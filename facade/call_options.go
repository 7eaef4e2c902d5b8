package facade

import (
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// CallOption configures one call.
type CallOption func(*callOptions)

type callOptions struct {
	timeout   time.Duration // 0: the server's Timeouts.Call; negative: none
	waitReady bool
	progress  func(mcpvisor.Progress) // nil: reports are not delivered
}

// WithWaitReady lets the call wait until its server is ready. Only the call's context
// ends the wait: it counts neither against the call's timeout nor against
// Timeouts.CallTotal, so give the context a deadline. Waiting calls are not counted in
// CallCounts.Queued or bounded by Limits.MaxQueued. A server that cannot become ready by
// itself ends the wait with ErrEvicted, ErrAuthRequired or ErrClosed. Without it, a call
// of a server that is not ready fails at once with mcpvisor.ErrUnavailable.
func WithWaitReady() CallOption { return func(o *callOptions) { o.waitReady = true } }

// WithProgress delivers the server's progress notifications about this call to f, in
// order, in the goroutine that makes the call, and all of them before the call
// returns. While f runs the call cannot end; nothing else waits for f. If f panics, the
// call is abandoned and the panic continues in that goroutine. Messages longer than
// 8 KiB are cut. When f is slow, up to 8,192 notifications or 1 MiB are kept, and
// further ones are dropped. Each notification restarts the call's timeout, with or
// without WithProgress.
func WithProgress(f func(mcpvisor.Progress)) CallOption {
	return func(o *callOptions) { o.progress = f }
}

// WithTimeout bounds the time without progress of this call. 0 means the default:
// [WithDefaultCallTimeout], else the server's Timeouts.Call. A negative value means no
// such bound. The server's Timeouts.CallTotal bounds the call as a whole in any case; if
// that is negative, too, the context needs a deadline, or the call fails with
// mcpvisor.ErrInvalid.
func WithTimeout(d time.Duration) CallOption { return func(o *callOptions) { o.timeout = d } }

// callOptions are the options of one call over those of the client.
func (c *Client) callOptions(opts []CallOption) callOptions {
	if len(opts) == 0 { // without an option that could keep them, they stay on the stack
		return callOptions{timeout: c.opts.callTimeout, waitReady: c.opts.waitReady}
	}
	o := callOptions{timeout: c.opts.callTimeout, waitReady: c.opts.waitReady}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}
