package tools

import (
	"encoding/json"
	"strconv"
	"strings"
)

// The request state of consult holds the number of the round. Its other characters
// expose clients that decode the state and encode it in another way.
const (
	consultKey   = "consult"
	consultState = "consult <&> é/"
)

// requestArgs describe a request of the server to the client.
type requestArgs struct {
	Method string
	Params json.RawMessage
}

// ask sends a request to the client and returns the client's answer.
func ask(c *Call, a requestArgs) Result {
	if a.Method == "" {
		return errorResult("ask: method is empty; name a request such as ping or roots/list")
	}
	select {
	case text := <-c.Streams.SendRequest(a.Method, a.Params):
		return textResult(string(text))
	case <-c.Context.Done():
		return Result{NoAnswer: true}
	}
}

// consult gets input from the client as the protocol version provides: since 2026-07-28
// by results of type input_required, before it by a request. It returns the last input.
func consult(c *Call, a struct {
	Method string
	Params json.RawMessage
	Rounds int
}) Result {
	if a.Method == "" {
		return errorResult("consult: method is empty; name elicitation/create, sampling/createMessage or roots/list")
	}
	if c.Streams != nil && !c.Modern {
		return ask(c, requestArgs{a.Method, a.Params})
	}
	round := 1
	if c.RequestState != "" {
		number, ok := strings.CutPrefix(c.RequestState, consultState)
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			return errorResult("consult: the client returned the request state " + c.RequestState)
		}
		responses := map[string]json.RawMessage{}
		if err := json.Unmarshal(c.InputResponses, &responses); err != nil || responses[consultKey] == nil {
			return errorResult("consult: there is no response in " + string(c.InputResponses))
		}
		if n >= max(a.Rounds, 1) {
			return textResult(string(responses[consultKey]))
		}
		round = n + 1
	}
	input := map[string]any{"method": a.Method, "params": struct{}{}}
	if len(a.Params) > 0 {
		input["params"] = a.Params
	}
	return Result{InputRequests: JSON(map[string]any{consultKey: input}), RequestState: consultState + strconv.Itoa(round)}
}
