package transport

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
)

// Roots is the list of roots that servers may request (MCP, client, roots). The host may
// replace it while servers run. Safe for concurrent use.
type Roots struct {
	mu          sync.Mutex           // guards all fields
	list        []*mcp.Root          // replaced and never changed
	revision    uint64               // counts the calls of Set
	subscribers map[*func()]struct{} // the functions passed to Follow
}

// NewRoots makes a list with a copy of roots.
func NewRoots(roots []*mcp.Root) *Roots {
	return &Roots{list: slices.Clone(roots), subscribers: make(map[*func()]struct{})}
}

// Set replaces the list with a copy of roots and notifies the sessions that follow it. It
// does not block.
func (r *Roots) Set(roots []*mcp.Root) { r.change(func() { r.list = slices.Clone(roots) }) }

func (r *Roots) change(apply func()) {
	r.mu.Lock()
	apply()
	r.revision++
	notify := make([]func(), 0, len(r.subscribers))
	for f := range r.subscribers {
		notify = append(notify, *f)
	}
	r.mu.Unlock()
	for _, f := range notify {
		f()
	}
}

// Touch notifies the sessions that follow the list, as after a change of it. It does not block.
func (r *Roots) Touch() { r.change(func() {}) }

// Current returns the list and its revision. The list must not be changed.
func (r *Roots) Current() ([]*mcp.Root, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.revision
}

// Followers returns how many sessions follow the list.
func (r *Roots) Followers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.subscribers)
}

// Follow calls changed after each change of the list until unfollow is called. If the
// list has changed since the revision since, Follow calls it at once. changed must not
// block.
func (r *Roots) Follow(since uint64, changed func()) (unfollow func()) {
	r.mu.Lock()
	r.subscribers[&changed] = struct{}{}
	missed := r.revision != since
	r.mu.Unlock()
	if missed {
		changed()
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subscribers, &changed)
	}
}

// Handlers are the functions of the host that answer requests of servers. If a handler is
// nil, its capability is not declared and its requests are rejected. All servers share the
// handlers, and many goroutines call them; server is the name of the requesting server.
//
// The context of a handler ends when the server cancels the request, when the call that the
// request is known to belong to fails, and when the session ends. No request waits for a
// handler that ignores this.
type Handlers struct {
	// Sample answers sampling/createMessage. Requests with tools come only with
	// SampleTools.
	Sample func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	// SampleTools declares that Sample handles tools.
	SampleTools bool
	// ElicitForm answers elicitation/create with a form, ElicitURL with a URL.
	ElicitForm func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	ElicitURL  func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// Elicited gets the ids of notifications/elicitation/complete.
	Elicited func(ctx context.Context, server, elicitationID string)
	// Roots answers roots/list. Legacy servers are notified of its changes.
	Roots *Roots

	// Declared are declared to legacy servers beside what the handlers above answer, because
	// requests may bring handlers of their own ([Caller]).
	Declared Offer
	// DeclaredRoots, if set, declares to legacy servers that they are told when the roots of who answers have changed,
	// if roots are declared: its Touch tells them. It has no list.
	DeclaredRoots *Roots

	// Extensions are declared to servers of both eras: the settings of each extension of MCP, by its name. They
	// must not change.
	Extensions map[string]json.RawMessage

	// Unasked answers requests of legacy servers that belong to no request with handlers of its
	// own, before the handlers above; nil: none does. It answers nothing that is not declared.
	Unasked *CallHandlers
}

// Offer says which requests of a server are answered.
type Offer struct{ Sample, SampleTools, ElicitForm, ElicitURL, Roots bool }

// Offer returns what the handlers answer.
func (h *Handlers) Offer() Offer {
	return Offer{Sample: h.Sample != nil, SampleTools: h.SampleTools, ElicitForm: h.ElicitForm != nil, ElicitURL: h.ElicitURL != nil, Roots: h.Roots != nil}
}

// Or returns what either of two answers.
func (o Offer) Or(other Offer) Offer {
	return Offer{o.Sample || other.Sample, o.SampleTools || other.SampleTools, o.ElicitForm || other.ElicitForm, o.ElicitURL || other.ElicitURL, o.Roots || other.Roots}
}

// Caller is the caller that one request is made for, if that is not the host itself. It is not changed while
// the request is in flight.
type Caller struct {
	// Handlers answer the requests of the server that belong to this one, in place of those of
	// Options; nil: those of Options. Requests with the same Handlers have one answerer: it
	// need not be known to which of them a request of the server belongs.
	Handlers *CallHandlers
	// Capabilities are the client capabilities that a request since 2026-07-28 declares, as a
	// JSON object, in place of those that follow from Handlers; nil: those.
	Capabilities json.RawMessage
	// NoTasks: without Capabilities, the request does not declare the extension for tasks, so a
	// server since 2026-07-28 makes no task of it.
	NoTasks bool
	// Rest is what the handlers of Options answer of what Handlers.Raw leaves to them.
	Rest Offer
	// Log, if set, gets the log messages about the request, as far as it is known that they are,
	// as Request.Progress gets reports. LogLevel is then the lowest level for servers since
	// 2026-07-28, in place of Request.LogLevel.
	Log      func(mcpvisor.LogMessage)
	LogLevel string
	// ReturnInput: a result that requires input (2026-07-28) is the result of the request.
	ReturnInput bool
}

// CallHandlers answer the requests of a server that belong to certain requests of this client.
// Their contexts are as those of [Handlers]. Safe for concurrent use.
type CallHandlers struct {
	// Sample, ElicitForm and ElicitURL are as in Handlers. If one is nil, its requests are
	// refused.
	Sample     func(ctx context.Context, server string, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	ElicitForm func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	ElicitURL  func(ctx context.Context, server string, p *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// SampleTools: Sample handles tools.
	SampleTools bool
	// Roots answers roots/list.
	Roots func(ctx context.Context, server string) ([]*mcp.Root, error)
	// Raw, if set, answers all of these requests in place of the functions above. It gets the
	// params as the server sent them, which it must not keep, and returns the result, a JSON
	// object, which is sent as it is. Of the params only the size was checked.
	Raw func(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, error)
	// RawOffer is what Raw answers; the zero Offer means everything. Other requests are answered
	// by the handlers of Options.
	RawOffer Offer
}

// For returns the handlers that answer a method: h itself, or nil if Raw leaves it to the handlers of
// Options.
func (h *CallHandlers) For(method string) *CallHandlers {
	if h == nil || h.Raw == nil || h.RawOffer == (Offer{}) {
		return h
	}
	own := false
	switch o := h.RawOffer; method {
	case "sampling/createMessage":
		own = o.Sample
	case "elicitation/create":
		own = o.ElicitForm || o.ElicitURL
	case "roots/list":
		own = o.Roots
	}
	if own {
		return h
	}
	return nil
}

// Offer returns what the handlers answer.
func (h *CallHandlers) Offer() Offer {
	switch {
	case h.Raw != nil && h.RawOffer != Offer{}:
		return h.RawOffer
	case h.Raw != nil:
		return Offer{true, true, true, true, true}
	}
	return Offer{Sample: h.Sample != nil, SampleTools: h.SampleTools, ElicitForm: h.ElicitForm != nil, ElicitURL: h.ElicitURL != nil, Roots: h.Roots != nil}
}
