package endpoint

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/mcpvisor/mcpvisor/internal/guard"
)

// connPool keeps the idle HTTP/1.1 connections to a server without TLS, for POSTs. The
// connections are http.ClientConns: net/http does all that concerns one connection, and the
// pool chooses the connection. The pool of http.Transport costs nine more allocations for
// each request, because any of its requests may go to any address, and wait for a connection.
//
// A connection belongs to the request that took it, until the body of the response has been
// read to its end. Safe for concurrent use.
type connPool struct {
	transport   *http.Transport
	address     string        // host:port
	maxIdle     int           // idle connections
	idleTimeout time.Duration // how long a connection may be idle; 0: no limit

	mu     sync.Mutex  // guards the fields below
	idle   []*poolConn // the one that was used last is at the end; the server may have closed some
	sweep  *time.Timer // nil before the first connection was idle
	armed  bool        // sweep will fire
	closed bool
}

// poolConn is one connection of a pool. Its owner, the pool or a request, owns idleSince and
// reused.
type poolConn struct {
	client *http.ClientConn
	// raw counts the bytes that were written; nil if the connection is not tracked.
	raw       *trackedConn
	idleSince time.Time
	reused    bool // it has carried other requests before
}

// newConnPool returns a pool of connections to the address of e; nil if only t can decide
// which connection a request needs: over TLS, which may choose HTTP/2, through a proxy, or
// where the application sets a bound for connections or a protocol.
func newConnPool(e *Endpoint, t *http.Transport) *connPool {
	host := e.URL.Hostname()
	switch {
	case host == "", strings.ContainsFunc(host, isNotASCII): // a ClientConn does not translate such a name
		return nil
	case e.URL.Scheme != "http", t.DisableKeepAlives, t.MaxConnsPerHost > 0, t.MaxIdleConnsPerHost < 0:
		return nil
	case t.Protocols != nil && (!t.Protocols.HTTP1() || t.Protocols.UnencryptedHTTP2()):
		return nil
	case t.Proxy != nil:
		if !guard.IsFuncNamed(t.Proxy, "net/http.ProxyFromEnvironment") {
			return nil
		}
		if proxy, err := t.Proxy(&http.Request{URL: e.URL}); proxy != nil || err != nil {
			return nil
		}
	}
	return &connPool{transport: t, address: e.HostPort, maxIdle: t.MaxIdleConnsPerHost, idleTimeout: t.IdleConnTimeout}
}

func isNotASCII(r rune) bool { return r > unicode.MaxASCII }

// roundTrip sends a request on an idle connection, or on a new one, and records in trace
// which one it is. The caller gives the connection back to the pool when the body of the
// response has ended.
func (p *connPool) roundTrip(req *http.Request, trace *ConnTrace) (*http.Response, *poolConn, error) {
	ctx := req.Context()
	if ctx.Err() != nil { // a ClientConn would send the request, and then close the connection
		return nil, nil, context.Cause(ctx)
	}
	c := p.take()
	if c == nil {
		var err error
		if c, err = p.connect(ctx); err != nil {
			return nil, nil, err
		}
	}
	trace.setConn(c.raw, c.reused)
	resp, err := c.client.RoundTrip(req)
	if err != nil {
		_ = c.client.Close()
		return nil, nil, withoutReadPrefix(err)
	}
	return resp, c, nil
}

// readPrefix begins the text of an error that http.Transport replaces by the error in it.
const readPrefix = "net/http: Transport failed to read from server: "

// withoutReadPrefix returns the error that http.Transport would return for err.
func withoutReadPrefix(err error) error {
	for strings.HasPrefix(err.Error(), readPrefix) {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	return err
}

// take returns an idle connection, the one that was used last; nil if the pool is empty.
func (p *connPool) take() *poolConn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if c.client.Reserve() == nil {
			return c
		}
		_ = c.client.Close() // the server has closed it
	}
}

// put takes a connection back whose request is complete, unless the server or net/http has
// closed it.
func (p *connPool) put(c *poolConn) {
	if c.client.Available() == 0 {
		_ = c.client.Close()
		return
	}
	c.idleSince, c.reused = time.Now(), true
	p.mu.Lock()
	var surplus *poolConn
	switch {
	case p.closed:
		surplus = c
	case len(p.idle) >= p.maxIdle:
		surplus = p.idle[0]
		copy(p.idle, p.idle[1:])
		p.idle[len(p.idle)-1] = c
	default:
		p.idle = append(p.idle, c)
	}
	p.armLocked(c.idleSince)
	p.mu.Unlock()
	if surplus != nil {
		_ = surplus.client.Close()
	}
}

// armLocked makes the sweep run when the connection that is idle for longest has reached
// idleTimeout, or earlier. The caller holds mu.
func (p *connPool) armLocked(now time.Time) {
	if p.closed || p.armed || p.idleTimeout <= 0 || len(p.idle) == 0 {
		return
	}
	p.armed = true
	after := max(p.idle[0].idleSince.Add(p.idleTimeout).Sub(now), 0)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(after, p.closeOld)
	} else {
		p.sweep.Reset(after)
	}
}

// closeOld closes the connections that have been idle for idleTimeout. The goroutine of the
// timer runs it.
func (p *connPool) closeOld() {
	now := time.Now()
	p.mu.Lock()
	p.armed = false
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idleSince) >= p.idleTimeout {
		n++
	}
	old := append([]*poolConn(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	p.armLocked(now)
	p.mu.Unlock()
	for _, c := range old {
		_ = c.client.Close()
	}
}

// close closes the idle connections, and every connection that becomes idle later.
func (p *connPool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	for _, c := range idle {
		_ = c.client.Close()
	}
}

// dialResult is the result of one attempt to connect.
type dialResult struct {
	conn *poolConn
	err  error
}

// connect makes a connection. It returns when ctx ends, also if a dial function of the
// application ignores that; the connection then goes to the pool as soon as it exists.
func (p *connPool) connect(ctx context.Context) (*poolConn, error) {
	result := make(chan dialResult, 1)
	go func() {
		c := &poolConn{}
		var err error
		c.client, err = p.transport.NewClientConn(context.WithValue(ctx, dialedKey{}, &c.raw), "http", p.address)
		result <- dialResult{c, err}
	}()
	select {
	case r := <-result:
		return r.conn, r.err
	case <-ctx.Done():
	}
	go func() {
		if r := <-result; r.err == nil {
			p.put(r.conn)
		}
	}()
	return nil, context.Cause(ctx)
}

// dialedKey is the key of a **trackedConn in the context of a dial function. The tracker
// stores there the connection that it makes.
type dialedKey struct{}
