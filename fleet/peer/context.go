package peer

import (
	"context"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
)

// callContext is the context of a call that is executed for another node. The stream of the call ends it, and
// watches the deadlines of all calls with one timer. Safe for concurrent use.
type callContext struct {
	until  time.Time // the deadline; the zero time for none
	client string    // who the call is for: its calls queue in turn with those of others

	mu    sync.Mutex
	err   error                // nil until it ends
	done  chan struct{}        // made by the first call of Done
	after map[*func()]struct{} // called when it ends
}

var _ context.Context = (*callContext)(nil)

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// end ends the context, unless it has ended.
func (c *callContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(err)
}

func (c *callContext) endLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.done == nil {
		c.done = closedChannel
	} else {
		close(c.done)
	}
	for f := range c.after {
		go (*f)()
	}
	c.after = nil
}

// Deadline implements [context.Context].
func (c *callContext) Deadline() (time.Time, bool) { return c.until, !c.until.IsZero() }

// Done implements [context.Context].
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
	}
	return c.done
}

// Err implements [context.Context]. After the deadline it is an error, even if the timer is late: a call
// that has come too late is not made.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.until.IsZero() && !time.Now().Before(c.until) {
		c.endLocked(context.DeadlineExceeded)
	}
	return c.err
}

// Value implements [context.Context]. It has the client of the call.
func (c *callContext) Value(key any) any {
	if key == (waitqueue.ClientKey{}) {
		return c.client
	}
	return nil
}

// AfterFunc calls f in a goroutine when the context has ended. [context.AfterFunc] and derived contexts
// use it; without it, each of them would need a goroutine.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = map[*func()]struct{}{}
	}
	c.after[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.after[&f]
		delete(c.after, &f)
		return waits
	}
}
