package mcptest

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The state of a consultation says which round comes next. It has characters
// that a client could be tempted to write in another way.
const (
	consultKey   = "consult"
	consultState = "consult <&> é/"
)

// consult asks the client in the way of the protocol's version: since
// 2026-07-28 by an answer that wants input, before it by a request. It answers
// with what the client text last.
func consult(c *toolCall, a struct {
	Method string
	Params json.RawMessage
	Rounds int
}) toolResult {
	if a.Method == "" {
		return errorResult("consult: method is empty; name elicitation/create, sampling/createMessage or roots/list")
	}
	if c.lines != nil && !c.modern {
		return ask(c, struct {
			Method string
			Params json.RawMessage
		}{a.Method, a.Params})
	}
	round := 1
	if c.state != "" {
		number, ok := strings.CutPrefix(c.state, consultState)
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			return errorResult("consult: the state came back as " + c.state)
		}
		text := map[string]json.RawMessage{}
		if err := json.Unmarshal(c.responses, &text); err != nil || text[consultKey] == nil {
			return errorResult("consult: there is no response in " + string(c.responses))
		}
		if n >= max(a.Rounds, 1) {
			return textResult(string(text[consultKey]))
		}
		round = n + 1
	}
	wants := map[string]any{"method": a.Method, "params": struct{}{}}
	if len(a.Params) > 0 {
		wants["params"] = a.Params
	}
	return toolResult{wants: mustJSON(map[string]any{consultKey: wants}), state: consultState + strconv.Itoa(round)}
}

// wanting is an answer that wants input, as the members of a result.
func (a toolResult) wanting() []byte {
	b := append([]byte(`"inputRequests":`), a.wants...)
	return append(append(b, `,"requestState":`...), quote(a.state)...)
}

// inputRequired is the same as a result of the go-sdk's.
func (a toolResult) inputRequired() (*mcp.CallToolResult, error) {
	result := &mcp.CallToolResult{RequestState: a.state}
	return result, json.Unmarshal(a.wants, &result.InputRequests)
}
