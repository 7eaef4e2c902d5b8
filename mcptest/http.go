package mcptest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/test/fixture/statedir"
)

// HTTPServer serves a script over Streamable HTTP on a loopback port, with the server
// of the go-sdk. Safe for concurrent use.
type HTTPServer struct {
	// URL is the MCP endpoint. It stays the same after Stop and Restart.
	URL string

	script  Script
	options mcp.StreamableHTTPOptions
	sse     bool
	address string
	counter *statedir.Counter

	mu       sync.Mutex
	current  *httpIncarnation
	refusals []int
	requests int
}

// HTTPOption adjusts a server made by [NewHTTP].
type HTTPOption func(*HTTPServer)

// WithStateless serves without sessions, as 2026-07-28 requires. Without this option
// the server does not speak that version, even if the script lists it.
func WithStateless() HTTPOption { return func(h *HTTPServer) { h.options.Stateless = true } }

// WithJSONResponses answers with application/json instead of an event stream.
func WithJSONResponses() HTTPOption { return func(h *HTTPServer) { h.options.JSONResponse = true } }

// WithSSE serves over HTTP+SSE, the transport of 2024-11-05 that preceded Streamable HTTP. URL
// is that of the event stream. WithStateless and WithJSONResponses have no effect beside it.
func WithSSE() HTTPOption { return func(h *HTTPServer) { h.sse = true } }

// NewHTTP serves the script. It supports only ActionHang, ActionError, ActionDelay,
// ActionExit and ActionDie, at the stages before an answer; ActionExit and ActionDie drop
// the server as [HTTPServer.Stop] does. For failures of HTTP use [HTTPServer.Refuse]. The tools that need the streams
// of a process are left out, and StartDelay has no effect.
//
// NewHTTP panics if the script is not valid, holds another fault, or if no loopback
// port is free. Close the server when done.
func NewHTTP(s Script, opts ...HTTPOption) *HTTPServer {
	s.mustBeValid()
	for _, f := range s.Faults {
		if !supportedOverHTTP(f) {
			panic(fmt.Errorf("%w: fault %q at %q does not work over HTTP; use ActionHang, ActionError, ActionDelay, ActionExit or ActionDie before an answer", errScript, f.Do, f.At))
		}
	}
	h := &HTTPServer{script: s.withDefaults(), counter: statedir.New(s.StateDir), address: "127.0.0.1:0"}
	for _, opt := range opts {
		if opt != nil {
			opt(h)
		}
	}
	if err := h.start(); err != nil {
		panic(fmt.Errorf("mcptest: serving on a loopback port: %w", err))
	}
	return h
}

// start starts an incarnation, on the port of the previous one if there was one.
func (h *HTTPServer) start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	listener, err := net.Listen("tcp", h.address)
	if err != nil {
		return err
	}
	start, err := h.counter.CountStart()
	if err != nil {
		_ = listener.Close()
		return err
	}
	h.address = listener.Addr().String()
	h.URL = "http://" + h.address + endpointPath
	h.current = newHTTPIncarnation(h, start)
	h.current.serve(listener)
	return nil
}

// Stop ends the incarnation as a crash does: it drops the connections, so calls in
// flight fail, and the port refuses connections until Restart. It returns when every
// handler has returned. Stopping twice is harmless.
func (h *HTTPServer) Stop() {
	h.mu.Lock()
	current := h.current
	h.mu.Unlock()
	current.end()
}

// Restart serves again on the same port. The new incarnation knows no session. A
// running server is stopped first. Restart panics if the port was taken meanwhile. Do
// not call it from two goroutines at the same time.
func (h *HTTPServer) Restart() {
	h.Stop()
	if err := h.start(); err != nil {
		panic(fmt.Errorf("mcptest: serving again on %s: %w", h.address, err))
	}
}

// Close stops the server.
func (h *HTTPServer) Close() { h.Stop() }

// Refuse rejects the next requests, of any kind, with these HTTP statuses in turn.
func (h *HTTPServer) Refuse(statuses ...int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusals = append(h.refusals, statuses...)
}

// Requests returns how many HTTP requests have arrived, restarts included.
func (h *HTTPServer) Requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

// refusal counts a request and returns the status to reject it with; 0 means that it is
// served.
func (h *HTTPServer) refusal() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	if len(h.refusals) == 0 {
		return 0
	}
	status := h.refusals[0]
	h.refusals = h.refusals[1:]
	return status
}

const endpointPath = "/mcp"

// httpIncarnation is one incarnation of an [HTTPServer].
type httpIncarnation struct {
	owner     *HTTPServer
	start     int
	instance  string
	script    Script
	plan      plan
	catalog   *catalog
	sdkServer *mcp.Server
	endpoint  http.Handler
	web       *http.Server
	ctx       context.Context
	cancel    context.CancelFunc
	served    chan struct{}
	endOnce   sync.Once

	// mu guards ended, and orders requests.Add before requests.Wait.
	mu       sync.Mutex
	ended    bool
	requests sync.WaitGroup
	// opening counts the running requests that open a session.
	opening sync.WaitGroup
}

func newHTTPIncarnation(h *HTTPServer, start int) *httpIncarnation {
	l := &httpIncarnation{
		owner: h, start: start, instance: rand.Text(), served: make(chan struct{}),
		plan: newPlan(h.script.Faults, start), script: h.script.forStart(start),
	}
	l.catalog = newCatalog(l.script)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.sdkServer = l.newSDKServer()
	server := func(*http.Request) *mcp.Server { return l.sdkServer }
	l.endpoint = mcp.NewStreamableHTTPHandler(server, &h.options)
	if h.sse {
		l.endpoint = mcp.NewSSEHandler(server, nil)
	}
	l.web = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(l.handle)}
	return l
}

func (l *httpIncarnation) handle(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	l.requests.Add(1)
	if !l.owner.sse && !l.owner.options.Stateless && r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" {
		l.opening.Add(1)
		defer l.opening.Done()
	}
	l.mu.Unlock()
	defer l.requests.Done()
	switch status := l.owner.refusal(); {
	case status != 0:
		http.Error(w, http.StatusText(status), status)
	case r.URL.Path != endpointPath:
		http.NotFound(w, r)
	default:
		l.endpoint.ServeHTTP(w, r)
	}
}

func (l *httpIncarnation) serve(listener net.Listener) {
	go func() {
		defer close(l.served)
		_ = l.web.Serve(listener)
	}()
}

// end drops the connections before it ends the sessions, so that no client gets an
// orderly answer. All concurrent calls return when it is done.
func (l *httpIncarnation) end() {
	l.endOnce.Do(func() {
		_ = l.web.Close()
		<-l.served
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		l.cancel()
		// The server of the go-sdk cannot close a session while the session is being
		// opened.
		l.opening.Wait()
		for session := range l.sdkServer.Sessions() {
			_ = session.Close()
		}
		l.requests.Wait()
	})
}

// crash ends the incarnation from one of its own requests. It does not wait, because
// end waits for that request.
func (l *httpIncarnation) crash() { go l.end() }
