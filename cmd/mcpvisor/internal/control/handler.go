// Package control serves the servers of one client to the commands of mcpvisor: over the
// unix socket of `mcpvisor run`, or within one process. It is package web with controls,
// and what only the commands need, under /run/.
//
// It trusts everyone who can connect. The unix socket admits only its user.
package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/rules"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// Schema names the shape of the answers below /run/. A command refuses another one.
const Schema = "run/v2"

// Info is the answer of GET /run/info: the process that serves.
type Info struct {
	Schema  string    `json:"schema"` // Schema
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Config is the path of the configuration file, and Digest a hash of its content when
	// it was read, at Read.
	Config string    `json:"config"`
	Digest string    `json:"digest"`
	Read   time.Time `json:"read"`
	// Problem says why the files as a whole could not be used when they were read; empty if
	// they could. The servers are those of the last reading that could be used.
	Problem string `json:"problem,omitempty"`
	// URL is the address of the page; empty without one.
	URL string `json:"url,omitempty"`
	// MCP is the address of the MCP server; empty without one.
	MCP string `json:"mcp,omitempty"`
	// Records is the directory of the records of this run, as an absolute path; empty without them.
	Records string `json:"records,omitempty"`
	// GatewayProblem says why "gateway" of the files could not be used when they were read; empty
	// if it could. The gateway is that of the last reading that could be used.
	GatewayProblem string `json:"gatewayProblem,omitempty"`
	// GroupsProblem says why "groups" of the files could not be used when they were read; empty if they could. The
	// groups are those of the last reading that could be used.
	GroupsProblem string `json:"groupsProblem,omitempty"`
	// TrustProblem says which of "rules" and "lock" of the files could not be used when they were read, and what is refused
	// until then; empty if all could.
	TrustProblem string `json:"trustProblem,omitempty"`
	// Withheld has the tools and prompts that hosts are not offered.
	Withheld []gateway.Withheld `json:"withheld,omitempty"`
	// Servers are the names of all usable servers, also of those that are not registered yet.
	Servers []string `json:"servers"`
	// UntilUnused: the run ends when it is unused, or for a run that takes over.
	UntilUnused bool `json:"untilUnused,omitempty"`
	// Entries are the entries of the file that the servers were made from, as far as their
	// names differ, by server.
	Entries map[string]string `json:"entries,omitempty"`
	// Unusable are the entries of the file that are not usable servers.
	Unusable []Unusable `json:"unusable,omitempty"`
	// Kept are the entries that are no longer usable. Their servers run by what these said
	// before.
	Kept []Unusable `json:"kept,omitempty"`
}

// Unusable is an entry of the file that is not a usable server.
type Unusable struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
	Reason string `json:"reason"`
}

// Handler serves a client. Safe for concurrent use.
type Handler struct {
	client   *facade.Client
	of       Served
	web      *web.Handler
	sessions *sessions
	routes   *http.ServeMux

	mu   sync.Mutex
	info Info

	answers *jsonanswer.Room // of large lists and results
	bodies  *jsonanswer.Room // of bodies of requests
}

// A command that is stopped while it reads cannot make the servers' process hold more.
const (
	maxAnswerBytes = 128 << 20
	maxBodiesBytes = 512 << 20
)

// Served is what is known of the servers of a client. The zero value serves copies.
type Served struct {
	// Program is what is known of the program beside its client. Mask, Terms and Leaving are not set, because they depend
	// on who reads. If Attention is nil, the problems that Info names are what needs attention.
	api.Program
	// Reload reads the configuration again. It is called by one request at a time or by several. nil: it is
	// not read again.
	Reload func(dryRun bool) Reload
	// Masks hide secrets in lists. nil: none are hidden.
	Masks *Masks
	// Settings are those of the MCP sessions. nil: none.
	Settings *gateway.SettingsVar
	// Withheld returns what hosts are not offered. nil: that is not known.
	Withheld func() []gateway.Withheld
	// Hosts counts the MCP sessions over the socket. nil: a registry of its own does.
	Hosts *clients.Registry
	// Key is the session key of the MCP sessions. nil: a random one.
	Key []byte
}

// Approvals are the part of a program that lets a person decide about the calls of a desk.
func Approvals(desk *rules.Desk) api.Program {
	return api.Program{Approvals: func() (all []api.Approval) {
		for _, q := range desk.Open() {
			all = append(all, api.Approval(q))
		}
		return all
	}, Decide: func(id string, approve bool, reason string) error {
		_, err := desk.Decide(id, rules.Decision{Approve: approve, Reason: reason})
		return err
	}}
}

// New makes a handler. The Schema of info is set here. [Handler.Update] says what has changed.
func New(client *facade.Client, of Served, info Info) (*Handler, error) {
	h := &Handler{client: client, routes: http.NewServeMux(), answers: jsonanswer.NewRoom(maxAnswerBytes), bodies: jsonanswer.NewRoom(maxBodiesBytes)}
	h.Update(info)
	if of.Masks == nil {
		of.Masks = new(Masks)
	}
	if of.Settings == nil {
		of.Settings = new(gateway.SettingsVar)
	}
	if of.Hosts == nil {
		of.Hosts = clients.New()
	}
	if of.Attention == nil {
		of.Attention = func() []api.Attention {
			present := h.full()
			return present.Attention()
		}
	}
	h.of, h.sessions = of, newSessions(client, &h.of)
	program := of.Program
	program.Mask, program.Terms = of.Masks.Text, cli.ConfigTerms
	page, err := web.New(client, web.WithControls(), web.WithGateway(of.Hosts.Status), web.WithProgram(program))
	if err != nil {
		return nil, err
	}
	h.web = page
	h.routes.Handle("/", page)
	h.routes.HandleFunc("GET /run/info", get(h, func(context.Context, url.Values) (any, error) { return h.full(), nil }))
	h.routes.HandleFunc("GET /run/mcp", h.getMCP)
	h.routes.HandleFunc("GET /run/tools", h.getTools)
	h.routes.HandleFunc("GET /run/resources", h.getResources)
	h.routes.HandleFunc("GET /run/prompts", h.getPrompts)
	h.routes.HandleFunc("POST /run/reload", post(h, h.reload))
	h.routes.HandleFunc("POST /run/hand-over", post(h, h.handOver))
	h.routes.HandleFunc("POST /run/call", h.postCall)
	h.routes.HandleFunc("GET /run/key", get(h, h.key))
	h.routes.HandleFunc("GET /run/inspect", get(h, h.inspect))
	h.routes.HandleFunc("POST /run/resolve", post(h, h.resolve))
	h.routes.HandleFunc("POST /run/read", post(h, h.read))
	h.routes.HandleFunc("POST /run/prompt", post(h, h.prompt))
	return h, nil
}

// Close ends the event streams and the MCP sessions. Call it before http.Server.Shutdown, which
// waits for the former and does not know the latter.
func (h *Handler) Close() {
	h.web.Close()
	h.sessions.close()
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.routes.ServeHTTP(w, r) }

func (h *Handler) present() Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.info
}

// full is present with the facts that change without a reload: withheld names, and the servers of a fleet.
func (h *Handler) full() Info {
	info := h.present()
	if h.of.Withheld != nil {
		info.Withheld = h.of.Withheld()
	}
	if h.of.Fleet != nil { // its servers come and go
		info.Servers = []string{}
		for _, s := range h.client.Status() {
			info.Servers = append(info.Servers, s.Name)
		}
	}
	return info
}

// Attention lists what is wrong with the configuration and is not the state of a server.
func (i *Info) Attention() (all []api.Attention) {
	since := i.Read
	add := func(server, action, format string, args ...any) {
		all = append(all, api.Attention{Server: server, Kind: api.AttentionConfiguration, Severity: api.SeverityWarning, Since: &since, Action: action,
			Text: display.Line(fmt.Sprintf(format, args...))})
	}
	if i.Problem != "" {
		add("", "correct the file; mcpvisor run then reads it by itself", "%s; the servers stay as they are", i.Problem)
	}
	if i.GatewayProblem != "" {
		add("", "correct the file; mcpvisor run then reads it by itself", "what hosts are offered is that of an earlier configuration, because the present one cannot be used: %s", i.GatewayProblem)
	}
	if i.GroupsProblem != "" {
		add("", "correct the file; mcpvisor run then reads it by itself", "the groups are those of an earlier configuration, because the present ones cannot be used: %s", i.GroupsProblem)
	}
	if i.TrustProblem != "" {
		add("", "correct the file; mcpvisor run then reads it by itself", "%s", i.TrustProblem)
	}
	for _, w := range i.Withheld {
		add(w.Server, "change what the reason names, or hide it", "the %s %q is not offered to hosts: %s", w.Kind, w.Name, w.Reason)
	}
	for _, u := range i.Kept {
		add(u.Name, "correct the entry; it is then read by itself", "runs by an earlier version of its entry, because the present one cannot be used: %s", u.Reason)
	}
	return all
}

// Update replaces the info that New was given, because the configuration was read again.
func (h *Handler) Update(info Info) {
	info.Schema = Schema
	h.mu.Lock()
	defer h.mu.Unlock()
	h.info = info
}

// ReadRequest is the body of POST /run/read.
type ReadRequest struct {
	Server string `json:"server"`
	URI    string `json:"uri"`
}

func (h *Handler) read(ctx context.Context, request ReadRequest) (any, error) {
	result, err := h.client.ReadResource(ctx, request.Server, request.URI)
	if err != nil {
		return nil, err
	}
	return readJSON(result), nil
}

// PromptRequest is the body of POST /run/prompt.
type PromptRequest struct {
	Server    string            `json:"server"`
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitempty"`
}

func (h *Handler) prompt(ctx context.Context, request PromptRequest) (any, error) {
	return h.client.GetPrompt(ctx, mcpvisor.Qualify(request.Server, request.Name), request.Arguments)
}

// get handles a request with what do returns of its query.
func get(h *Handler, do func(ctx context.Context, query url.Values) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(r.Context(), r.URL.Query())
		h.answer(w, r, answer, err)
	}
}

// post decodes the body of a request, calls do with it, and answers with the result of do.
func post[T any](h *Handler, do func(ctx context.Context, request T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := h.bodies.NewBody(w, r, MaxArguments)
		request, err := jsonanswer.Decode[T](body)
		body.Release()
		if err != nil {
			writeError(w, bodyError(err))
			return
		}
		answer, err := do(r.Context(), request)
		h.answer(w, r, answer, err)
	}
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request, answer any, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	h.write(w, r, func(e *jsonanswer.Encoder) { e.Value(answer) })
}

// bodyError is the error of a body that cannot be used.
func bodyError(err error) error {
	kind := mcpvisor.ErrInvalid
	if errors.Is(err, jsonanswer.ErrNoRoom) {
		kind = mcpvisor.ErrOverloaded
	}
	return &mcpvisor.Error{Op: "read the request", Kind: kind, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, build func(*jsonanswer.Encoder)) {
	answer, err := h.answers.Encode(r.Context(), build)
	if errors.Is(err, jsonanswer.ErrNoRoom) {
		err = &mcpvisor.Error{Op: "answer", Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeAnswered, Cause: err}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	answer.Write(w, http.StatusOK)
}

// writeError writes an error in the form of package web. The status says only that it is
// one; the kind says which.
func writeError(w http.ResponseWriter, err error) {
	data, err := json.Marshal(api.ErrorAnswer{Error: detailOf(err)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	jsonanswer.SetDeadline(w, len(data))
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write(data)
}

// detailOf describes an error in the form of package web, in the words of the command line.
func detailOf(err error) api.ErrorDetail {
	detail := api.ErrorDetail{Message: cli.ConfigTerms(err.Error())}
	if e := (*mcpvisor.Error)(nil); errors.As(err, &e) {
		detail.Kind, detail.Outcome, detail.Server, detail.RetryAfterMs = e.Kind, e.Outcome, e.Server, e.RetryAfter.Milliseconds()
	}
	return detail
}

// Key is the answer of GET /run/key.
type Key struct {
	// Entry is what the journal knows of the key, without the result; nil: it does not know it.
	Entry *mcpvisor.JournalEntry `json:"entry,omitempty"`
}

// key answers with what the journal knows of ?key=KEY of &principal=NAME.
func (h *Handler) key(ctx context.Context, query url.Values) (any, error) {
	entries, err := h.client.JournalEntries(ctx, mcpvisor.JournalKey{Principal: query.Get("principal"), Key: query.Get("key")})
	var answer Key
	if len(entries) > 0 {
		entries[0].Result = nil
		answer.Entry = &entries[0]
	}
	return answer, err
}

// inspect answers with the facade.Client.Inspect of ?server=NAME.
func (h *Handler) inspect(_ context.Context, query url.Values) (any, error) {
	server := query.Get("server")
	if found, ok := h.client.Inspect(server); ok {
		return found, nil
	}
	return nil, &mcpvisor.Error{Server: server, Op: "inspect", Kind: mcpvisor.ErrUnknownServer, Outcome: mcpvisor.OutcomeNotSent}
}

// ResolveRequest is the body of POST /run/resolve: a key, and the facade.KeyResolution of it.
type ResolveRequest struct {
	mcpvisor.JournalKey
	Seen   time.Time       `json:"seen"`
	By     string          `json:"by"`
	NotRun bool            `json:"notRun,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// resolve states what became of the call of a key. Only commands can: clients of the gateway and the page
// have no such request.
func (h *Handler) resolve(ctx context.Context, request ResolveRequest) (any, error) {
	return struct{}{}, h.client.ResolveKey(ctx, request.JournalKey, facade.KeyResolution{Seen: request.Seen, By: request.By, NotRun: request.NotRun, Result: request.Result})
}

// ReloadRequest is the body of POST /run/reload: read the configuration again.
type ReloadRequest struct {
	// DryRun asks what would change, and changes nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// Reload is the answer of POST /run/reload: what the configuration changes.
type Reload struct {
	DryRun bool `json:"dryRun,omitempty"`
	// Problem says why the files as a whole cannot be used. Then nothing changes.
	Problem string `json:"problem,omitempty"`
	// GatewayProblem says why "gateway" of the files cannot be used. What hosts are offered stays as
	// it was.
	GatewayProblem string `json:"gatewayProblem,omitempty"`
	// GroupsProblem says why "groups" of the files cannot be used. The groups stay as they were.
	GroupsProblem string `json:"groupsProblem,omitempty"`
	// TrustProblem says which of "rules" and "lock" of the files cannot be used, and what is refused until then.
	TrustProblem string `json:"trustProblem,omitempty"`
	// Also are the other keys at the top of the files whose values change, such as "groups", "rules" and "lock: off → enforce".
	// "mcpvisor.lock" says that this file has another content.
	Also []string `json:"also,omitempty"`
	// Changes are by server, in the order of their names.
	Changes []Change `json:"changes"`
	// Unchanged counts the servers that are left alone.
	Unchanged int `json:"unchanged"`
	// TookMs is how long the changes took, with the calls in flight of what ends, and starts beside a server
	// that is replaced. Other starts are not waited for.
	TookMs int64 `json:"tookMs"`
}

// Change is what becomes of one server.
type Change struct {
	Server string `json:"server"`
	Action Action `json:"action"`
	// Differences say how the entry of a server that is replaced differs, a key of the file each, without secrets.
	Differences []string `json:"differences,omitempty"`
	// Drained counts the calls in flight that ended before the server did, Cut those that the change has ended.
	Drained int `json:"drained,omitempty"`
	Cut     int `json:"cut,omitempty"`
	// Reason says why the entry is not usable.
	Reason string `json:"reason,omitempty"`
	// Error says why the change failed.
	Error string `json:"error,omitempty"`
}

// Action says what a reload does with a server.
type Action string

const (
	// ActionAdd starts a server.
	ActionAdd Action = "add"
	// ActionReplace ends a server and starts it by its new entry, or the other way round if both may run.
	ActionReplace Action = "replace"
	// ActionRemove ends a server.
	ActionRemove Action = "remove"
	// ActionKeep leaves a server as it is, because its entry is no longer usable.
	ActionKeep Action = "keep"
	// ActionUnusable shows an entry that is not usable as a server that was given up.
	ActionUnusable Action = "unusable"
)

// Text says in one line how the entry differs, or why it is not usable.
func (c *Change) Text() string {
	return cmp.Or(c.Error, c.Reason, strings.Join(c.Differences, ", "))
}

// Done says in one line how the entry differs, and what became of the server and of its calls in flight.
func (c *Change) Done() string {
	text := c.Text()
	if c.Error != "" || c.Action != ActionReplace && c.Action != ActionRemove {
		return text
	}
	text = strings.TrimPrefix(text+"; "+map[Action]string{ActionReplace: "replaced", ActionRemove: "removed"}[c.Action], "; ")
	if c.Drained > 0 {
		text += ", " + display.Count(c.Drained, "call") + " drained"
	}
	if c.Cut > 0 {
		text += ", " + display.Count(c.Cut, "call") + " ended by it"
	}
	return text
}

func (h *Handler) reload(_ context.Context, request ReloadRequest) (any, error) {
	if h.of.Reload == nil {
		return nil, &mcpvisor.Error{Op: "reload", Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: errors.New("these servers are copies, and no configuration is read again for them")}
	}
	return h.of.Reload(request.DryRun), nil
}

// MaxArguments bounds the arguments of a call, in bytes.
const MaxArguments = 64 << 20

// CallMessage is one value of the answer to POST /run/call. Exactly one member is set. The
// last value has the result or the error; those before it are progress.
type CallMessage struct {
	Progress *mcpvisor.Progress `json:"progress,omitempty"`
	// Result is what the server sent, byte for byte.
	Result json.RawMessage  `json:"result,omitempty"`
	Error  *api.ErrorDetail `json:"error,omitempty"`
}

// postCall calls the tool ?tool=NAME with the body as arguments. ?timeout=DURATION replaces
// the server's own timeout of calls, ?key=KEY names the call, and with ?progress=true the answer has the progress
// that the server reports. With ?dry=true nothing is sent: the error says why the tool cannot be called,
// and is ErrCanceled if it can. The answer is a sequence of [CallMessage]. The call ends with the
// request.
func (h *Handler) postCall(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	opts := []facade.CallOption{relay.WithClientName("mcpvisor call")}
	body := h.bodies.NewBody(w, r, MaxArguments)
	defer body.Release()
	arguments, err := io.ReadAll(body)
	if text := query.Get("timeout"); text != "" && err == nil {
		var timeout time.Duration
		timeout, err = time.ParseDuration(text)
		opts = append(opts, facade.WithTimeout(timeout))
	}
	if err != nil {
		writeError(w, bodyError(err))
		return
	}
	if key := query.Get("key"); key != "" {
		opts = append(opts, facade.WithKey(key))
	}
	w.Header().Set("Content-Type", "application/json")
	stream := http.NewResponseController(w)
	if query.Get("progress") == "true" {
		opts = append(opts, facade.WithProgress(func(p mcpvisor.Progress) {
			if data, err := json.Marshal(CallMessage{Progress: &p}); err == nil {
				jsonanswer.SetDeadline(w, len(data))
				_, _ = w.Write(append(data, '\n')) // the end of the request ends the call
				_ = stream.Flush()
				_ = stream.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end the answer
			}
		}))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if query.Get("dry") == "true" {
		cancel()
	}
	result, err := h.client.CallToolRaw(ctx, query.Get("tool"), arguments, opts...)
	body.Release()
	if err == nil && len(result) > jsonanswer.SmallBytes {
		if h.answers.Take(len(result)) {
			defer h.answers.Return(len(result))
		} else {
			err = &mcpvisor.Error{Op: "call " + query.Get("tool"), Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeAnswered, Cause: jsonanswer.ErrNoRoom}
		}
	}
	jsonanswer.SetDeadline(w, len(result))
	if err != nil {
		detail := detailOf(err)
		if data, err := json.Marshal(CallMessage{Error: &detail}); err == nil {
			_, _ = w.Write(data)
		}
		return
	}
	// json.Marshal would change the spaces of the result.
	for _, part := range [][]byte{[]byte(`{"result":`), result, []byte(`}`)} {
		_, _ = w.Write(part) //nolint:gosec // JSON for a command; a command that has ended needs no answer
	}
}
