package mcptest

import (
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// HostileHTTP is a server on a loopback port that misbehaves. Close it when
// done. Safe for concurrent use.
type HostileHTTP struct {
	// URL is the MCP endpoint. It stays the same over Stop and Restart.
	URL string

	misbehaviour HTTPMisbehaviour
	address      string
	trap         *HostileHTTP // another origin; nil for a trap itself

	mu       sync.Mutex
	life     *hostileLife
	requests map[string]int
	values   map[string]map[string]bool
}

// hostileLife is one incarnation of a [HostileHTTP].
type hostileLife struct {
	habitat  *habitat
	web      *http.Server
	served   chan struct{}
	handlers sync.WaitGroup

	mu    sync.Mutex
	ended bool
	conns map[*zooConn]struct{}
}

// Serve begins to misbehave on a loopback port. It panics if none can be had.
func (m HTTPMisbehaviour) Serve() *HostileHTTP {
	s := newHostile(m, nil)
	s.trap = newHostile(HTTPMisbehaviour{Name: "trap", habits: func() habits {
		return habits{"*": func(v *visit) { v.reply(http.StatusNotFound, "text/plain", "you are not expected here") }}
	}}, nil)
	s.mu.Lock()
	s.life.habitat.trap = s.trap.URL
	s.mu.Unlock()
	return s
}

func newHostile(m HTTPMisbehaviour, trap *HostileHTTP) *HostileHTTP {
	s := &HostileHTTP{misbehaviour: m, address: "127.0.0.1:0", trap: trap,
		requests: map[string]int{}, values: map[string]map[string]bool{}}
	if err := s.begin(); err != nil {
		panic(fmt.Errorf("mcptest: serving on a loopback port: %w", err))
	}
	return s
}

func (s *HostileHTTP) begin() error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	life := &hostileLife{habitat: s.misbehaviour.habitat(), served: make(chan struct{}), conns: map[*zooConn]struct{}{}}
	life.web = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(s.serve), ErrorLog: silence}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trap != nil {
		life.habitat.trap = s.trap.URL
	}
	s.address, s.life = listener.Addr().String(), life
	s.URL = "http://" + s.address + endpointPath
	go func() {
		defer close(life.served)
		_ = life.web.Serve(zooListener{listener, life})
	}()
	return nil
}

// serve notes a request and passes it on.
func (s *HostileHTTP) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	life := s.life
	s.requests[r.Method]++
	for name, values := range r.Header {
		if s.values[name] == nil {
			s.values[name] = map[string]bool{}
		}
		for _, value := range values {
			s.values[name][value] = true
		}
	}
	s.mu.Unlock()
	life.mu.Lock()
	if life.ended {
		life.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	life.handlers.Add(1)
	life.mu.Unlock()
	defer life.handlers.Done()
	life.habitat.ServeHTTP(w, r)
}

// Stop ends the server as a crash does: its connections are dropped, and its
// port refuses until Restart. It returns when nothing is left of it. Stopping
// twice is harmless.
func (s *HostileHTTP) Stop() {
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	_ = life.web.Close()
	<-life.served
	life.mu.Lock()
	life.ended = true
	conns := slices.Collect(maps.Keys(life.conns))
	life.mu.Unlock()
	for _, c := range conns { // those that were taken over from net/http, too
		_ = c.Close()
	}
	life.handlers.Wait()
}

// Restart serves again on the same port, with no memory of any session. It
// panics if the port was taken meanwhile. Do not call it from two goroutines
// at once.
func (s *HostileHTTP) Restart() {
	s.Stop()
	if err := s.begin(); err != nil {
		panic(fmt.Errorf("mcptest: serving again on %s: %w", s.address, err))
	}
}

// Close ends the server for good.
func (s *HostileHTTP) Close() {
	s.Stop()
	if s.trap != nil {
		s.trap.Stop()
	}
}

// Connections is how many connections are open, as the server sees it.
func (s *HostileHTTP) Connections() int {
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	life.mu.Lock()
	n := len(life.conns)
	life.mu.Unlock()
	if s.trap != nil {
		n += s.trap.Connections()
	}
	return n
}

// Requests is how many requests have come with an HTTP method, over all
// incarnations.
func (s *HostileHTTP) Requests(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[method]
}

// Values lists the different values that a request header has had so far.
func (s *HostileHTTP) Values(header string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values[http.CanonicalHeaderKey(header)]))
}

// Trespasses is how many requests have followed a redirect to another origin.
// There should be none.
func (s *HostileHTTP) Trespasses() int {
	n := 0
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		n += s.trap.Requests(method)
	}
	return n
}

// silence is for what net/http says about broken connections.
var silence = log.New(io.Discard, "", 0)

// zooListener counts connections.
type zooListener struct {
	net.Listener
	life *hostileLife
}

// Accept implements [net.Listener].
func (l zooListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &zooConn{Conn: conn, life: l.life}
	l.life.mu.Lock()
	defer l.life.mu.Unlock()
	if l.life.ended {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	l.life.conns[c] = struct{}{}
	return c, nil
}

type zooConn struct {
	net.Conn
	life *hostileLife
}

// Close implements [net.Conn].
func (c *zooConn) Close() error {
	c.life.mu.Lock()
	delete(c.life.conns, c)
	c.life.mu.Unlock()
	return c.Conn.Close()
}
