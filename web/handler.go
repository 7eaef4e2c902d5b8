package web

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/internal/usage"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Handler serves the page and the API of one client. Mount it under any prefix:
//
//	mux.Handle("/ops/mcp/", http.StripPrefix("/ops/mcp", handler))
//
// It starts no goroutine of its own. Safe for concurrent use.
type Handler struct {
	client   *facade.Client // read only
	opts     options        // read only
	instance string         // read only; tells event streams of different handlers apart
	routes   *http.ServeMux // read only
	origins  *http.CrossOriginProtection

	logins *rate.Limiter  // attempts to log in by the form
	usage  usage.Recorder // what servers use
	// unfinished are calls of earlier processes.
	unfinished unfinished
	answers    *jsonanswer.Room // of large answers
	bodies     *jsonanswer.Room // of bodies of requests
	searches   chan struct{}    // holds a value while records are searched
	requests   chan struct{}    // holds one value for each request that is served, without streams and probes
	streams    chan struct{}    // holds one value for each open event stream
	closeOnce  sync.Once
	closed     chan struct{} // closed by Close
}

// What readers can make a handler hold. Beyond it the answer is 503 with Retry-After.
const (
	// maxStreams is how many event streams are open at a time, so that forgotten pages
	// cannot take all connections.
	maxStreams = 64
	// maxRequests is how many other requests are served at a time. Probes are not counted.
	maxRequests = 512
	// maxAnswerBytes bounds the answers of more than [jsonanswer.SmallBytes] that are held
	// while they are written, and the results of calls.
	maxAnswerBytes = 64 << 20
	// maxBodiesBytes bounds the memory of bodies that are read, and of the arguments of calls.
	maxBodiesBytes = 64 << 20
	// maxAddressBytes bounds path and query of a request.
	maxAddressBytes = 8 << 10
	// retryAfter is when a reader may try again.
	retryAfter = 2 * time.Second
)

// New makes a handler that shows a client. Without options it is read only, needs no
// token, and answers only on loopback addresses and under loopback names. Nil options are
// ignored.
//
// It returns an error if the options contradict each other.
func New(client *facade.Client, opts ...Option) (*Handler, error) {
	if client == nil {
		return nil, errors.New("web: the client is nil; make one with facade.New")
	}
	o := options{title: "mcpvisor"}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	var instance [8]byte
	_, _ = rand.Read(instance[:]) // it never fails; see crypto/rand
	h := &Handler{client: client, opts: o, instance: hex.EncodeToString(instance[:]), logins: newLoginLimit(),
		origins: http.NewCrossOriginProtection(), closed: make(chan struct{}),
		answers: jsonanswer.NewRoom(maxAnswerBytes), bodies: jsonanswer.NewRoom(maxBodiesBytes),
		searches: make(chan struct{}, 1), requests: make(chan struct{}, maxRequests), streams: make(chan struct{}, maxStreams)}
	h.routes = h.newRoutes()
	return h, nil
}

// Close ends the event streams. Everything else is served as before. Call it before
// http.Server.Shutdown, which waits for streams. Closing twice is harmless.
func (h *Handler) Close() {
	h.closeOnce.Do(func() { close(h.closed) })
}

type route struct {
	pattern string // of http.ServeMux
	serve   http.HandlerFunc
}

// operations are the routes of the API and the probes, as openapi.json describes them.
func (h *Handler) operations() []route {
	return []route{
		{"GET /api/status", h.getStatus},
		{"GET /api/servers/{name}", h.getServer},
		{"GET /api/servers/{name}/tools", h.getTools},
		{"GET /api/servers/{name}/stderr", h.getStderr},
		{"GET /api/tools", h.getToolUse},
		{"GET /api/search", h.getSearch},
		{"GET /api/calls", h.getCalls},
		{"GET /api/records", h.getRecords},
		{"GET /api/clients", h.getClients},
		{"GET /api/nodes", h.getNodes},
		{"GET /api/usage", h.getUsage},
		{"GET /api/events", h.getEvents},
		{"GET /api/events/summaries", h.getSummaries},
		{"GET " + streamPath, h.streamEvents},
		{"GET /api/openapi.json", h.getOpenAPI},
		{"POST /api/servers/{name}/restart", h.postRestart},
		{"POST /api/servers/{name}/stop", h.postStop},
		{"POST /api/servers/{name}/start", h.postStart},
		{"POST /api/servers/{name}/authorize", h.postAuthorize},
		{"POST /api/call", h.postCall},
		{"GET /api/tasks", h.getTasks},
		{"POST /api/calls/cancel", h.postCallCancel},
		{"POST /api/tasks/cancel", h.postTaskCancel},
		{"POST /api/tasks/wait", h.postTaskWait},
		{"GET /api/approvals", h.getApprovals},
		{"POST /api/approvals", h.postApproval},
		{"GET /healthz", h.getHealth},
		{"GET /readyz", h.getReadiness},
		{"GET /metrics", h.getMetrics},
	}
}

func (h *Handler) newRoutes() *http.ServeMux {
	m := http.NewServeMux()
	for _, r := range h.operations() {
		m.HandleFunc(r.pattern, r.serve)
	}
	m.HandleFunc("GET /{$}", h.getIndex)
	m.HandleFunc("GET /{file}", h.getAsset)
	return m
}

// openAPI describes the API (OpenAPI 3.1).
//
//go:embed openapi.json
var openAPI []byte

func (h *Handler) getOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	jsonanswer.SetDeadline(w, len(openAPI))
	_, _ = w.Write(openAPI) // a reader that has gone needs no answer
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	limitBody(w, r)
	if len(r.RequestURI) > maxAddressBytes || len(r.URL.RawQuery) > maxAddressBytes { // a name in it is compared with others
		writeError(w, http.StatusRequestURITooLong, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Message: fmt.Sprintf("the address is longer than %d bytes", maxAddressBytes)})
		return
	}
	if r.URL.Path == "" { // http.StripPrefix took all of it
		redirectToSlash(w, r)
		return
	}
	if r.URL.Path != path.Clean(r.URL.Path) { // ServeMux would redirect to a path without the prefix
		writeError(w, http.StatusNotFound, api.ErrorDetail{Message: "no such page"})
		return
	}
	if r.URL.Path == loginPath && r.Method == http.MethodPost && h.opts.tokenSet {
		h.login(w, r)
		return
	}
	if refused := h.refuse(r); refused != nil {
		if refused.status == http.StatusUnauthorized && offersLogin(r) {
			writeLogin(w, refused.status, "")
			return
		}
		refused.write(w)
		return
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil { // what is dropped could be a filter
		writeError(w, http.StatusBadRequest, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Message: "the query of the address is not valid: " + err.Error()})
		return
	}
	if h.acceptToken(w, r) {
		return
	}
	if !isProbe(r.URL.Path) && r.URL.Path != streamPath {
		select {
		case h.requests <- struct{}{}:
			defer func() { <-h.requests }()
		default:
			writeBusy(w, fmt.Sprintf("%d requests are being served, which is the limit; try again later", maxRequests))
			return
		}
	}
	h.routes.ServeHTTP(&plainErrors{ResponseWriter: w}, r)
}

// getMetrics serves the handler of WithMetrics. It knows no deadline.
func (h *Handler) getMetrics(w http.ResponseWriter, r *http.Request) {
	if h.opts.metrics == nil {
		writeError(w, http.StatusNotFound, api.ErrorDetail{Message: "no such page"})
		return
	}
	jsonanswer.SetDeadline(w, 0)
	h.opts.metrics.ServeHTTP(w, r)
}

// redirectToSlash redirects a request for the prefix to the same path with a slash at its
// end, because the links of the page are relative. The address is relative, too: a proxy
// may have removed a prefix of its own.
func redirectToSlash(w http.ResponseWriter, r *http.Request) {
	requested, _, _ := strings.Cut(r.RequestURI, "?")
	location := "./" + path.Base(requested) + "/"
	if r.URL.RawQuery != "" {
		location += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusPermanentRedirect)
}

// now is the time of an answer, without the monotonic clock, which does not marshal.
func now() time.Time { return time.Now().Round(0) }

func (h *Handler) getHealth(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, api.Health{Status: "ok"})
}

func (h *Handler) getReadiness(w http.ResponseWriter, r *http.Request) {
	refused := h.refuseStranger(r)
	if refused != nil && !h.mayAsk(r) {
		refused.write(w)
		return
	}
	answer := api.Readiness{Closed: relay.Of(h.client).Closed() || h.opts.program.Leaving != nil && h.opts.program.Leaving(), NotReady: h.notReady(h.required(r))}
	answer.Ready = len(answer.NotReady) == 0 && !answer.Closed
	if refused != nil {
		answer = api.Readiness{Ready: answer.Ready}
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

// required returns the servers that a request for readyz is about, and whether they were named.
func (h *Handler) required(r *http.Request) (names []string, named bool) {
	if names := r.URL.Query()["server"]; names != nil {
		return names, true
	}
	if h.opts.requiredSet {
		return h.opts.required, true
	}
	return h.client.Servers(), false
}

// mayAsk reports whether a client that may not see the page gets an answer: it names no
// servers but those of WithRequired. So it cannot find out names and states.
func (h *Handler) mayAsk(r *http.Request) bool {
	for _, name := range r.URL.Query()["server"] {
		if !slices.Contains(h.opts.required, name) {
			return false
		}
	}
	return true
}

// notReady returns those of the servers that are not ready. One that is out of service as planned is only if it was
// named.
func (h *Handler) notReady(names []string, named bool) (missing []api.NotReady) {
	all := h.client.Status()
	for _, name := range names {
		i := slices.IndexFunc(all, func(s mcpvisor.ServerStatus) bool { return s.Name == name })
		switch {
		case i < 0:
			missing = append(missing, api.NotReady{Server: name, Reason: "no server of that name is registered"})
		case all[i].State == supervisor.StateReady, !named && isPlanned(&all[i]):
		default:
			h.statusInTerms(&all[i])
			missing = append(missing, api.NotReady{Server: name, State: all[i].State, Reason: reasonOf(&all[i]), RetryAt: all[i].RetryAt})
		}
	}
	return missing
}

// isPlanned reports whether a server is not ready as planned: it is at rest, goes to rest or wakes, or an operator has
// stopped it.
func isPlanned(s *mcpvisor.ServerStatus) bool {
	return s.State != supervisor.StateReady && s.DownSince == nil
}

// reasonOf says in one line why a server is not ready.
func reasonOf(s *mcpvisor.ServerStatus) string {
	if len(s.WaitsFor) > 0 {
		return "the server waits for " + strings.Join(s.WaitsFor, ", ")
	}
	if s.LastCause != nil {
		return s.LastCause.Describe()
	}
	return "the server is " + string(s.State)
}

// pageFiles are the files of the page. There is no build step: what is in the folder is
// what browsers get.
//
//go:embed page
var pageFiles embed.FS

type asset struct {
	contentType string
	etag        string
	plain       []byte
	compressed  []byte // by gzip
}

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// assets reads the files of the page, by name. They are compressed once, when the first
// page is opened.
var assets = sync.OnceValue(func() map[string]asset {
	files, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(fmt.Sprintf("web: the files of the page are not embedded: %v", err))
	}
	all := make(map[string]asset, len(files))
	for _, f := range files {
		data, err := pageFiles.ReadFile(path.Join("page", f.Name()))
		if err != nil {
			panic(fmt.Sprintf("web: %v", err))
		}
		var compressed bytes.Buffer
		zip, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression) // the level is valid
		_, _ = zip.Write(data)                                           // a buffer takes everything
		_ = zip.Close()
		sum := sha256.Sum256(data)
		all[f.Name()] = asset{contentType: contentTypes[path.Ext(f.Name())], etag: `"` + hex.EncodeToString(sum[:8]) + `"`,
			plain: data, compressed: compressed.Bytes()}
	}
	return all
})

func (h *Handler) getIndex(w http.ResponseWriter, r *http.Request) { serveAsset(w, r, "index.html") }

func (h *Handler) getAsset(w http.ResponseWriter, r *http.Request) {
	serveAsset(w, r, r.PathValue("file"))
}

// serveAsset serves a file of the page. Browsers ask each time whether it has changed, so
// that a page of an older version does not stay.
func serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	file, found := assets()[name]
	if !found {
		writeError(w, http.StatusNotFound, api.ErrorDetail{Message: "no such page"})
		return
	}
	header := w.Header()
	header.Set("Content-Type", file.contentType)
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", file.etag)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), file.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := file.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		body = file.compressed
	}
	jsonanswer.SetDeadline(w, len(body))
	_, _ = w.Write(body) // a client that has gone needs no answer
}
