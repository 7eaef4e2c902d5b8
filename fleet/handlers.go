package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/transport"
)

// hostHandlers turn the handlers of calls that go to other nodes into those that package peer
// takes. Calls with the same handlers here have the same ones there: that is how a question of the
// server is known to belong to one of them. Safe for concurrent use.
type hostHandlers struct {
	host facade.CallHandlers // of calls without handlers of their own: those of the client

	mu   sync.Mutex
	made map[*transport.CallHandlers]*madeHandlers // guarded by mu
}

type madeHandlers struct {
	calls int
	facade.CallHandlers
}

func newHostHandlers(h *transport.Handlers) *hostHandlers {
	own := &transport.CallHandlers{Sample: h.Sample, ElicitForm: h.ElicitForm, ElicitURL: h.ElicitURL, SampleTools: h.SampleTools}
	if h.Roots != nil {
		own.Roots = func(context.Context, string) ([]*mcp.Root, error) {
			list, _ := h.Roots.Current()
			return list, nil
		}
	}
	handlers := &hostHandlers{made: map[*transport.CallHandlers]*madeHandlers{}}
	handlers.host.Raw, handlers.host.RawAnswers = rawHandler(own), declared(own.Offer())
	if own.Offer() == (transport.Offer{}) {
		handlers.host.Raw = nil // and so every question is refused
	}
	return handlers
}

// of returns the handlers of a call, and a function that is called when the call has ended.
func (h *hostHandlers) of(caller *transport.Caller) (*facade.CallHandlers, func()) {
	if caller == nil || caller.Handlers == nil {
		return &h.host, func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.made[caller.Handlers]
	if m == nil {
		m = &madeHandlers{}
		m.Raw, m.RawAnswers = rawHandler(caller.Handlers), declared(caller.Handlers.Offer())
		h.made[caller.Handlers] = m
	}
	m.calls++
	return &m.CallHandlers, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if m.calls--; m.calls == 0 {
			delete(h.made, caller.Handlers)
		}
	}
}

func declared(o transport.Offer) facade.Declared {
	return facade.Declared{Sampling: o.Sample, SamplingTools: o.SampleTools, Elicitation: o.ElicitForm, URLElicitation: o.ElicitURL, Roots: o.Roots}
}

// rawHandler answers the requests of servers by h.
func rawHandler(h *transport.CallHandlers) func(context.Context, facade.ServerRequest) (json.RawMessage, error) {
	return func(ctx context.Context, r facade.ServerRequest) (json.RawMessage, error) {
		if h.Raw != nil {
			return h.Raw(ctx, r.Server, r.Method, r.Params)
		}
		switch {
		case r.Method == "sampling/createMessage" && h.Sample != nil:
			return answer(r.Params, func(p *mcp.CreateMessageWithToolsParams) (any, error) { return h.Sample(ctx, r.Server, p) })
		case r.Method == "elicitation/create":
			return answer(r.Params, func(p *mcp.ElicitParams) (any, error) {
				ask := h.ElicitForm
				if p.Mode == "url" {
					ask = h.ElicitURL
				}
				if ask == nil {
					return nil, refusedQuestion(r.Method)
				}
				return ask(ctx, r.Server, p)
			})
		case r.Method == "roots/list" && h.Roots != nil:
			roots, err := h.Roots(ctx, r.Server)
			if err != nil {
				return nil, err
			}
			return json.Marshal(&mcp.ListRootsResult{Roots: roots})
		}
		return nil, refusedQuestion(r.Method)
	}
}

func refusedQuestion(method string) error {
	return fmt.Errorf("the caller answers no %s", method)
}

func answer[P any](params json.RawMessage, ask func(*P) (any, error)) (json.RawMessage, error) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	result, err := ask(&p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// maxInputs bounds the inputs that a task requests at a time.
const maxInputs = 32

// answerInputs answers what a task requires (inputRequests) by handlers, one after the other, and
// returns inputResponses.
func answerInputs(ctx context.Context, server string, handlers *facade.CallHandlers, requests json.RawMessage) (json.RawMessage, error) {
	required := func(err error) error {
		return &mcpvisor.Error{Server: server, Kind: mcpvisor.KindInputRequired, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	}
	if handlers.Raw == nil {
		return nil, required(errNoHandlers)
	}
	var asked map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(requests, &asked); err != nil {
		return nil, required(err)
	}
	if len(asked) > maxInputs {
		return nil, required(fmt.Errorf("the server requests %d inputs at once; %d at most are answered", len(asked), maxInputs))
	}
	responses := make(map[string]json.RawMessage, len(asked))
	for key, r := range asked {
		result, err := handlers.Raw(ctx, facade.ServerRequest{Server: server, Method: r.Method, Params: r.Params})
		if err != nil {
			return nil, required(err)
		}
		responses[key] = result
	}
	return json.Marshal(responses)
}

var errNoHandlers = errors.New("neither the call nor the client has a handler for it")
