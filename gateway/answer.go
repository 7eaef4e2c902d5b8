package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/internal/task"
)

// methods has the function for each request that a session answers.
var methods = map[string]func(*request) (any, error){
	"initialize":               (*request).initialize,
	"server/discover":          (*request).discover,
	"ping":                     func(*request) (any, error) { return struct{}{}, nil },
	"tools/call":               (*request).callTool,
	"tools/list":               listOf(func(l *listing.Listing) *listing.List { return &l.Tools }),
	"prompts/list":             listOf(func(l *listing.Listing) *listing.List { return &l.Prompts }),
	"prompts/get":              (*request).getPrompt,
	"resources/list":           listOf(func(l *listing.Listing) *listing.List { return &l.Resources }),
	"resources/templates/list": listOf(func(l *listing.Listing) *listing.List { return &l.Templates }),
	"resources/read":           (*request).readResource,
	"resources/subscribe":      (*request).subscribe,
	"resources/unsubscribe":    (*request).unsubscribe,
	"completion/complete":      (*request).complete,
	"logging/setLevel":         (*request).setLoggingLevel,
	"subscriptions/listen":     (*request).listen,
	"tasks/get":                (*request).getTask,
	"tasks/update":             (*request).updateTask,
	"tasks/cancel":             (*request).cancelTask,
	"tasks/result":             (*request).taskResult,
	"tasks/list":               (*request).listTasks,
}

// answer returns the result of a request, or a *jsonrpc.Error.
func (r *request) answer() (json.RawMessage, error) {
	method, ok := methods[r.Method]
	if !ok {
		return nil, message.MethodNotFound(r.Method)
	}
	if r.params == nil || r.params.names { // a single one over HTTP has been read
		r.params = readParams(r.ctx, r.Method, r.Params)
	}
	p := r.params
	if p.err != nil {
		return nil, p.err
	}
	if err := checkVersion(p.version); err != nil {
		return nil, err
	}
	if p.modern() && r.session.line != nil {
		r.gateway.opts.standalone.set(r.session, eraModern)
	}
	if strings.HasSuffix(r.Method, "/list") {
		if err := r.acquire(r.session.slotsOf().listing); err != nil {
			return nil, err
		}
		r.lists = true
	}
	result, err := method(r)
	if err != nil {
		return nil, err
	}
	if text, ok := result.(json.RawMessage); ok {
		return text, nil
	}
	return message.Result(result, p.modern())
}

// maxNotificationBytes bounds the params of a notification. They are read while Write waits.
const maxNotificationBytes = 64 << 10

// receiveNotification handles a notification of the peer. An unknown one is ignored. p is nil if its params were not read.
func (s *session) receiveNotification(r *jsonrpc.Request, p *params) {
	switch r.Method {
	case "notifications/initialized":
		s.notify.StartSession()
		if s.line != nil {
			s.gateway.opts.standalone.set(s, eraLegacy)
		}
	case "notifications/roots/list_changed":
		s.rootsChanged()
	case "notifications/cancelled":
		if len(r.Params) > maxNotificationBytes {
			return
		}
		if p == nil || p.names {
			p = readParams(s.ctx, r.Method, r.Params)
		}
		if p.err != nil || p.requestID == nil {
			return
		}
		if id, err := jsonrpc.MakeID(p.requestID); err == nil {
			s.requests.cancel(id)
		}
	}
}

// modernVersion is the first version without initialize.
const modernVersion = "2026-07-28"

// legacyVersions are the versions with initialize, oldest first.
var legacyVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// capabilities are declared by every session. Servers come and go during a session, so capabilities do
// not depend on what the servers offer when it begins.
var capabilities = &mcp.ServerCapabilities{
	Tools:       &mcp.ToolCapabilities{ListChanged: true},
	Prompts:     &mcp.PromptCapabilities{ListChanged: true},
	Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
	Completions: &mcp.CompletionCapabilities{},
	Logging:     &mcp.LoggingCapabilities{},
}

// capabilities returns what a session declares: with the extensions that the client declares to its servers, because what belongs to
// them is passed on. Which servers speak one is no matter here: they come and go.
func (g *gateway) capabilities(extensions map[string]any) *mcp.ServerCapabilities {
	for name := range relay.Of(g.client).Extensions() {
		extensions[name] = struct{}{}
	}
	all := *capabilities
	all.Extensions = extensions
	return &all
}

// initialize answers the handshake of versions before 2026-07-28 (MCP, basic, lifecycle). An unknown
// version is answered with the newest of them.
func (r *request) initialize() (any, error) {
	version := sessionVersion(r.params.protocolVersion)
	bits := sessionBits(version, r.params.sessionCapabilities)
	r.session.legacy.Store(true)
	r.session.declare(bits) // only a Transport comes here: over HTTP the id of the session carries them
	r.session.speak(version)
	r.session.introduce(r.params.sessionClient, version)
	return r.gateway.initializeResult(version, bits), nil
}

// sessionVersion returns the version of a session whose client has offered one.
func sessionVersion(offered string) string {
	if slices.Contains(legacyVersions, offered) {
		return offered
	}
	return legacyVersions[len(legacyVersions)-1]
}

// initializeResult returns the answer to initialize. The types of the go-sdk do not have the tasks of
// 2025-11-25.
func (g *gateway) initializeResult(version string, bits uint16) any {
	capabilities := g.capabilities(map[string]any{})
	result := &mcp.InitializeResult{ProtocolVersion: version, Capabilities: capabilities, ServerInfo: serverInfo(), Instructions: g.instructions()}
	if bits&capability.Tasks == 0 {
		return result
	}
	type withTasks struct {
		*mcp.ServerCapabilities
		Tasks json.RawMessage `json:"tasks"`
	}
	return struct {
		*mcp.InitializeResult
		Capabilities withTasks `json:"capabilities"`
	}{result, withTasks{capabilities, legacyTaskCapabilities}}
}

// discover answers server/discover (2026-07-28).
func (r *request) discover() (any, error) {
	modern := r.gateway.capabilities(map[string]any{task.Extension: struct{}{}})
	result := &mcp.DiscoverResult{SupportedVersions: supportedVersions(), Capabilities: modern, Instructions: r.gateway.instructions()}
	result.Meta = mcp.Meta{mcp.MetaKeyServerInfo: serverInfo()}
	result.CacheScope = listing.CacheScope
	return result, nil
}

// supportedVersions returns all versions, newest first.
func supportedVersions() []string {
	versions := append(slices.Clone(legacyVersions), modernVersion)
	slices.Reverse(versions)
	return versions
}

// checkVersion refuses a request that names an unknown version. An empty version is valid: older
// requests name none.
func checkVersion(version string) error {
	if version == "" || version == modernVersion || slices.Contains(legacyVersions, version) {
		return nil
	}
	data, _ := json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: supportedVersions(), Requested: message.Shorten(version)})
	return &jsonrpc.Error{Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version", Data: data}
}

func serverInfo() *mcp.Implementation {
	return &mcp.Implementation{Name: "mcpvisor", Version: facade.Version()}
}

// maxInstructions bounds the instructions of all servers together, in bytes.
const maxInstructions = 64 << 10

// instructions returns those of the servers that are ready or at rest, each preceded by the name of its server.
func (g *gateway) instructions() string {
	var b strings.Builder
	for known := range g.view.Servers(g.view.Rules()) {
		if known.Unavailable || known.Instructions == "" || b.Len()+len(known.Instructions) > maxInstructions {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(known.Server + ": " + listing.Visible(known.Instructions))
	}
	return b.String()
}

// protocolError returns the JSON-RPC error for a request that the client could not answer. If the server
// has answered with an error, it is that error. Otherwise it has the text for a model, and a
// facade.ModelError as data.
func (s *session) protocolError(target string, err error) *jsonrpc.Error {
	if refused, ok := err.(*jsonrpc.Error); ok { // the gateway has refused the request itself
		return refused
	}
	var wire *jsonrpc.Error
	if errors.Is(err, mcpvisor.ErrRPC) && errors.As(err, &wire) {
		same := *wire
		return &same
	}
	if isUnknown(err) { // the client suggests names that this session may not list
		return message.InvalidParams(message.Quote(target) + " is not offered; list again")
	}
	result := s.gateway.client.ErrorForModel(target, err)
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: textOf(result)}
	var failed *mcpvisor.Error
	if errors.As(err, &failed) && failed.Kind == mcpvisor.ErrUnavailable {
		if status, ok := s.tenancy.statusOf(failed.Server); ok {
			e.Message += " (Server " + failed.Server + " is " + string(status.State) + ".)"
		}
	}
	if errors.Is(err, mcpvisor.ErrInvalid) {
		e.Code = jsonrpc.CodeInvalidParams
	}
	e.Data, _ = json.Marshal(result.StructuredContent) // a ModelError always marshals
	return e
}

const errEndedEarly = "the session was ended, or the gateway is shutting down"

// giveUp returns the answer to a request that outlives its session. admitted says that a server may have
// executed the request. The HTTP status is not an error such as 503, which would say that the request
// may be repeated.
func (r *request) giveUp(admitted bool) *jsonrpc.Response {
	answer := &jsonrpc.Response{ID: r.ID}
	failure := &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent}
	text := errEndedEarly + "; nothing was done"
	if admitted {
		failure.Kind, failure.Outcome = mcpvisor.ErrCanceled, mcpvisor.OutcomeUnknown
		text = errEndedEarly + ". The request may have been executed; check before you repeat it."
	}
	if r.Method == "tools/call" {
		result, err := message.Result(r.gateway.client.ErrorForModel(r.params.name, failure), r.params.modern())
		if err == nil {
			answer.Result = result
			return answer
		}
	}
	data, _ := json.Marshal(map[string]mcpvisor.Outcome{"outcome": failure.Outcome}) // text always marshals
	answer.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text, Data: data}
	return answer
}

// isUnknown reports whether no tool and no server has the name in the request.
func isUnknown(err error) bool {
	e := (*mcpvisor.Error)(nil) // not what it wraps: a call may have run, and have lost its server afterwards
	return errors.As(err, &e) && (e.Kind == mcpvisor.ErrUnknownTool || e.Kind == mcpvisor.ErrUnknownServer)
}

func textOf(result *mcp.CallToolResult) string {
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

// setLevelTimeout bounds the requests to the servers. A server that does not answer in time keeps its
// level.
const setLevelTimeout = 5 * time.Second

// setLoggingLevel answers logging/setLevel: it sets the level of every registered server that is
// offered. Errors of servers that refuse it, or have no log messages, are ignored. A session sets one
// level at a time.
func (r *request) setLoggingLevel() (any, error) {
	p := r.params
	level := slices.Index(notices.LogLevels, p.level)
	if level < 0 {
		return nil, message.InvalidParams(fmt.Sprintf("unknown log level %s; use one of %v", message.Quote(p.level), notices.LogLevels))
	}
	r.session.notify.SetLogLevel(level)
	levelling := r.session.slotsOf().levelling
	if err := r.acquire(levelling); err != nil {
		return nil, err
	}
	defer func() { <-levelling }()
	ctx, cancel := context.WithTimeout(r.ctx, setLevelTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, server := range r.gateway.view.ServerNames() {
		if !r.gateway.isCopied(server) { // own copies get it below, and those that start later from copyLevel
			all.Go(func() { _ = r.gateway.client.SetLoggingLevel(ctx, server, p.level) })
			if r.session.tenancy.needsLegacy(server) {
				r.session.tenancy.sharedTenant()
			}
		}
	}
	for _, t := range []*tenant{r.session.tenancy.own.Load(), r.session.tenancy.shared.Load()} {
		if t == nil {
			continue
		}
		for server, copied := range t.copies() {
			all.Go(func() { _ = copied.SetLoggingLevel(ctx, server, p.level) })
		}
	}
	all.Wait()
	return struct{}{}, nil
}
