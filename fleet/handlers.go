package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/peer"
	"github.com/mcpvisor/mcpvisor/transport"
)

// hostHandlers returns the handlers of calls to other nodes that have none of their own: those of the client.
func hostHandlers(h *transport.Handlers) *transport.CallHandlers {
	own := &transport.CallHandlers{Sample: h.Sample, ElicitForm: h.ElicitForm, ElicitURL: h.ElicitURL, SampleTools: h.SampleTools}
	if h.Roots != nil {
		own.Roots = func(context.Context, string) ([]*mcp.Root, error) {
			list, _ := h.Roots.Current()
			return list, nil
		}
	}
	return own
}

// handlersOf returns the handlers of a call to another node.
func (d *dialer) handlersOf(caller *transport.Caller) *transport.CallHandlers {
	if caller == nil || caller.Handlers == nil {
		return d.host
	}
	return caller.Handlers
}

// maxInputs bounds the inputs that a task requests at a time.
const maxInputs = 32

// answerInputs answers what a task requires (inputRequests) by handlers, one after the other, and
// returns inputResponses.
func answerInputs(ctx context.Context, server string, handlers *transport.CallHandlers, requests json.RawMessage) (json.RawMessage, error) {
	required := func(err error) error {
		return &mcpvisor.Error{Server: server, Kind: mcpvisor.ErrInputRequired, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	}
	if handlers.Offer() == (transport.Offer{}) {
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
		result, err := peer.Answer(ctx, handlers, relay.ServerRequest{Server: server, Method: r.Method, Params: r.Params})
		if err != nil {
			return nil, required(err)
		}
		responses[key] = result
	}
	return json.Marshal(responses)
}

var errNoHandlers = errors.New("neither the call nor the client has a handler for it")
