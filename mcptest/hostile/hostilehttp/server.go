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

// Server is a server on a loopback port that misbehaves. Make one with
// [Misbehaviour.Serve] and close it when done. Safe for concurrent use.
type Server struct {
	// URL is the MCP endpoint. It stays the same after Stop and Restart.
	URL string

	misbehaviour Misbehaviour
	address      string
	otherOrigin  *Server // stands for another origin; nil in that server itself

	// mu guards everything below, and the fields of current that begin sets.
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
	if err := s.begin(); err != nil {
		panic(fmt.Errorf("hostilehttp: serving on a loopback port: %w", err))
	}
	return s
}

func (s *Server) begin() error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	life := &incarnation{httpServer: s.misbehaviour.newHTTPServer(), served: make(chan struct{}), conns: map[*countedConn]struct{}{}}
	life.web = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(s.serve), ErrorLog: silence}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.otherOrigin != nil {
		life.httpServer.otherOrigin = s.otherOrigin.URL
	}
	s.address, s.current = listener.Addr().String(), life
	s.URL = "http://" + s.address + endpointPath
	go func() {
		defer close(life.served)
		_ = life.web.Serve(countingListener{listener, life})
	}()
	return nil
}

// serve counts a request and passes it on.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	life := s.current
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
	life.httpServer.ServeHTTP(w, r)
}

// Stop ends the server as a crash does: it drops the connections, and the port
// refuses connections until Restart. It returns when every handler has returned.
// Stopping twice is harmless.
func (s *Server) Stop() {
	s.mu.Lock()
	life := s.current
	s.mu.Unlock()
	_ = life.web.Close()
	<-life.served
	life.mu.Lock()
	life.ended = true
	conns := slices.Collect(maps.Keys(life.conns))
	life.mu.Unlock()
	for _, c := range conns { // hijacked ones included
		_ = c.Close()
	}
	life.handlers.Wait()
}

// Restart serves again on the same port and has forgotten every session. It panics if
// the port was taken meanwhile. Do not call it from two goroutines at the same time.
func (s *Server) Restart() {
	s.Stop()
	if err := s.begin(); err != nil {
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
	life := s.current
	s.mu.Unlock()
	life.mu.Lock()
	n := len(life.conns)
	life.mu.Unlock()
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

// silence drops the log lines of net/http about broken connections.
var silence = log.New(io.Discard, "", 0)

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
