package hostilehttp

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

// Server is a misbehaving server on a loopback port. Make one with [Misbehaviour.Serve]
// and close it when done. Safe for concurrent use.
type Server struct {
	// URL is the MCP endpoint. It stays the same after Stop and Restart.
	URL string

	misbehaviour Misbehaviour
	address      string
	otherOrigin  *Server // a second server that stands for another origin; nil in that server itself

	// mu guards everything below, and current.httpServer.otherOrigin.
	mu       sync.Mutex
	current  *incarnation
	requests map[string]int             // by HTTP method
	values   map[string]map[string]bool // of request headers, by name
}

// incarnation is one incarnation of a [Server].
type incarnation struct {
	httpServer *httpServer
	web        *http.Server
	served     chan struct{}  // closed when web no longer accepts connections
	handlers   sync.WaitGroup // running handlers; counted up with mu held

	// mu guards everything below.
	mu    sync.Mutex
	ended bool
	conns map[*countedConn]struct{}
}

// Serve starts a server on a loopback port, and a second one that stands for another
// origin. It panics if there is no free port.
func (m Misbehaviour) Serve() *Server {
	s := newServer(m, nil)
	s.otherOrigin = newServer(Misbehaviour{Name: "other-origin", handlers: func() handlers {
		return handlers{"*": func(req *request) {
			req.reply(http.StatusNotFound, "text/plain", "this origin must not be reached by a redirect")
		}}
	}}, nil)
	s.mu.Lock()
	s.current.httpServer.otherOrigin = s.otherOrigin.URL
	s.mu.Unlock()
	return s
}

func newServer(m Misbehaviour, otherOrigin *Server) *Server {
	s := &Server{misbehaviour: m, address: "127.0.0.1:0", otherOrigin: otherOrigin,
		requests: map[string]int{}, values: map[string]map[string]bool{}}
	if err := s.start(); err != nil {
		panic(fmt.Errorf("hostilehttp: serving on a loopback port: %w", err))
	}
	return s
}

func (s *Server) start() error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	current := &incarnation{httpServer: s.misbehaviour.newHTTPServer(), served: make(chan struct{}), conns: map[*countedConn]struct{}{}}
	current.web = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(s.serve), ErrorLog: discardLog}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.otherOrigin != nil {
		current.httpServer.otherOrigin = s.otherOrigin.URL
	}
	s.address, s.current = listener.Addr().String(), current
	s.URL = "http://" + s.address + endpointPath
	go func() {
		defer close(current.served)
		_ = current.web.Serve(countingListener{listener, current})
	}()
	return nil
}

// serve counts a request and passes it to the current incarnation.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	current := s.current
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
	current.mu.Lock()
	if current.ended {
		current.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	current.handlers.Add(1)
	current.mu.Unlock()
	defer current.handlers.Done()
	current.httpServer.ServeHTTP(w, r)
}

// Stop ends the server as a crash does: it drops the connections, and the port
// refuses connections until Restart. It returns when every handler has returned.
// Stopping twice is harmless.
func (s *Server) Stop() {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	_ = current.web.Close()
	<-current.served
	current.mu.Lock()
	current.ended = true
	conns := slices.Collect(maps.Keys(current.conns))
	current.mu.Unlock()
	for _, c := range conns { // hijacked connections, too, which http.Server does not close
		_ = c.Close()
	}
	current.handlers.Wait()
}

// Restart serves again on the same port. The new incarnation knows no session. It
// panics if the port was taken meanwhile. Do not call it from two goroutines at the
// same time.
func (s *Server) Restart() {
	s.Stop()
	if err := s.start(); err != nil {
		panic(fmt.Errorf("hostilehttp: serving again on %s: %w", s.address, err))
	}
}

// Close stops the server and the other origin.
func (s *Server) Close() {
	s.Stop()
	if s.otherOrigin != nil {
		s.otherOrigin.Stop()
	}
}

// Connections returns how many connections are open on the server and on the other
// origin.
func (s *Server) Connections() int {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	current.mu.Lock()
	n := len(current.conns)
	current.mu.Unlock()
	if s.otherOrigin != nil {
		n += s.otherOrigin.Connections()
	}
	return n
}

// Requests returns how many requests with an HTTP method have arrived, restarts
// included.
func (s *Server) Requests(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[method]
}

// Values returns the different values of a request header so far, sorted.
func (s *Server) Values(header string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values[http.CanonicalHeaderKey(header)]))
}

// CrossOriginRequests returns how many requests followed a redirect to another
// origin. A client must not send any: they carry its credentials.
func (s *Server) CrossOriginRequests() int {
	n := 0
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		n += s.otherOrigin.Requests(method)
	}
	return n
}

// discardLog drops the log lines of net/http about broken connections.
var discardLog = log.New(io.Discard, "", 0)

// countingListener keeps track of open connections.
type countingListener struct {
	net.Listener
	life *incarnation
}

// Accept implements [net.Listener].
func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &countedConn{Conn: conn, life: l.life}
	l.life.mu.Lock()
	defer l.life.mu.Unlock()
	if l.life.ended {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	l.life.conns[c] = struct{}{}
	return c, nil
}

// countedConn is a connection of a countingListener.
type countedConn struct {
	net.Conn
	life *incarnation
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.life.mu.Lock()
	delete(c.life.conns, c)
	c.life.mu.Unlock()
	return c.Conn.Close()
}
