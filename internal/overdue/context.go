package overdue

import (
	"context"
	"sync"
	"time"
)

// deadlineContext is a context with a [Timer]. Its descendants get its Err by AfterFunc: it does not share
// the channel of the context that it embeds.
type deadlineContext struct {
	context.Context // ends with the parent, or when the timer fires
	timer           *Timer
	done            chan struct{}

	mu  sync.Mutex
	err error // DeadlineExceeded when the timer has fired
}

// WithTimeout is [context.WithTimeout] with a [Timer].
func WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return WithDeadline(parent, time.Now().Add(d))
}

// WithTimeoutCause is [context.WithTimeoutCause] with a [Timer].
func WithTimeoutCause(parent context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return WithDeadlineCause(parent, time.Now().Add(d), cause)
}

// WithDeadline is [context.WithDeadline] with a [Timer].
func WithDeadline(parent context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	return WithDeadlineCause(parent, deadline, context.DeadlineExceeded)
}

// WithDeadlineCause is [context.WithDeadlineCause] with a [Timer]. A deadline that has passed already is
// late, too.
func WithDeadlineCause(parent context.Context, deadline time.Time, cause error) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(parent)
	c := &deadlineContext{Context: inner, done: make(chan struct{})}
	context.AfterFunc(inner, func() { close(c.done) })
	c.timer = at(deadline, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if inner.Err() == nil {
			c.err = context.DeadlineExceeded
			cancel(cause)
		}
	})
	return c, func() {
		c.timer.Stop()
		cancel(context.Canceled)
	}
}

// Deadline implements [context.Context].
func (c *deadlineContext) Deadline() (time.Time, bool) {
	c.timer.mu.Lock()
	at := c.timer.due
	c.timer.mu.Unlock()
	if of, ok := c.Context.Deadline(); ok && of.Before(at) {
		at = of
	}
	return at, true
}

// Done implements [context.Context].
func (c *deadlineContext) Done() <-chan struct{} { return c.done }

// Err implements [context.Context].
func (c *deadlineContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return c.Context.Err()
}

// AfterFunc registers f for package context: a derived context needs no goroutine.
func (c *deadlineContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.Context, f)
}

// Last returns a channel that is ready when what has come already for a request has had its time to be read.
// ctx is the context of the request, which has ended.
func Last(ctx context.Context) <-chan time.Time {
	if at, ok := ctx.Deadline(); ok && ctx.Err() == context.DeadlineExceeded {
		if grace := Grace(time.Since(at)); grace > 0 {
			return time.After(grace)
		}
	}
	return over
}

// over is always ready.
var over = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()
