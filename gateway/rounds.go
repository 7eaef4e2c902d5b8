package gateway

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Input that a server of 2026-07-28 requires is handed to a client of 2026-07-28 as the server has sent
// it, and what the client sends with the next request goes to the server as it is (MCP, multi round-trip
// requests).

// rounds are what a request since 2026-07-28 says about input.
type rounds struct {
	declared json.RawMessage // the capabilities of the client
	next     facade.Continuation
}

// readRounds reads the params of a request.
func readRounds(raw json.RawMessage, p *params) (s rounds) {
	if !p.modern() {
		return rounds{}
	}
	_ = jsonscan.EachMember(raw, func(key string, value []byte) error { // readParams has said what is wrong
		switch key {
		case "inputResponses":
			s.next.InputResponses = value
		case "requestState":
			s.next.RequestState = value
		case "_meta":
			return jsonscan.EachMember(value, func(key string, value []byte) error {
				if key == mcp.MetaKeyClientCapabilities {
					s.declared = value
				}
				return nil
			})
		}
		return nil
	})
	return s
}

// valid reports whether the answers are an object.
func (s *rounds) valid() bool {
	return len(s.next.InputResponses) == 0 || s.next.InputResponses[0] == '{'
}

var errInputResponses = invalidParams("the inputResponses in params are not an object")

// relay reports whether the client answers itself. One that can answer nothing leaves it to the handlers
// of the client that is served.
func (s *rounds) relay() (own bool) {
	if len(s.next.InputResponses) > 0 || len(s.next.RequestState) > 0 {
		return true
	}
	_ = jsonscan.EachMember(s.declared, func(key string, _ []byte) error { // one that is no object is refused with _meta
		own = own || key == "sampling" || key == "elicitation" || key == "roots"
		return nil
	})
	return own || declaresTasks(s.declared) // what a task asks for goes to the client
}

// addTo adds the option of a round.
func (s *rounds) addTo(opts []facade.CallOption) []facade.CallOption {
	if !s.relay() {
		return opts
	}
	return append(opts, facade.WithRelay(s.next))
}

// readRound returns the result of a round: as it is, if the server requires input.
func readRound[R any](raw json.RawMessage, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if _, more := facade.ReadInputRequired(raw); more {
		return raw, nil
	}
	result := new(R)
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, fmt.Errorf("the result cannot be read: %w", err)
	}
	return result, nil
}
