package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/overdue"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// Multi round-trip requests (2026-07-28, SEP-2322): a server that needs input answers with
// resultType "input_required", a list of input requests and an opaque state. The client
// repeats the request with the input responses and the state. jsonrpc.MaxRounds bounds the
// rounds of one request.

// MaxEmptyRounds is how many rounds in a row may request no input. A server that sends only
// a state defers the call; the client repeats the request after a pause.
const MaxEmptyRounds = 3

const resultTypeInputRequired = `"input_required"`

// hintServerFault is the hint of an error that only a change of the server can prevent.
const hintServerFault = "the server is at fault; report it to its authors"

// NeedsInput reports whether a result requests input instead of ending its request. The
// search for the text first makes that cheap for all other results.
func NeedsInput(method string, result []byte) bool {
	if !bytes.Contains(result, []byte(resultTypeInputRequired)) {
		return false
	}
	switch method {
	case "tools/call", "prompts/get", "resources/read":
	default:
		return false
	}
	return string(jsonscan.Member(result, "resultType")) == resultTypeInputRequired
}

// inputRequired is the result of a round that requests input. Its texts are slices of the
// result.
type inputRequired struct {
	requests []inputRequest
	state    []byte // requestState as the server wrote it; nil if missing
}

// inputRequest is one entry of inputRequests.
type inputRequest struct {
	key    string // names the entry in inputResponses
	method string
	params []byte
}

// readInputRequired reads the result of a round that requests input.
func readInputRequired(result []byte) (w inputRequired, err error) {
	err = jsonscan.EachMember(result, func(key string, value []byte) (err error) {
		switch {
		case string(value) == "null":
		case key == "requestState":
			w.state = value
		case key == "inputRequests":
			w.requests, err = readInputRequests(value)
		}
		return err
	})
	return w, err
}

// readInputRequests reads inputRequests.
func readInputRequests(text []byte) (requests []inputRequest, err error) {
	err = jsonscan.EachMember(text, func(key string, value []byte) error {
		r := inputRequest{key: key}
		if len(requests) == jsonrpc.MaxInputRequests {
			return fmt.Errorf("the server requests more than %d inputs at once", jsonrpc.MaxInputRequests)
		}
		err := jsonscan.EachMember(value, func(key string, value []byte) (err error) {
			switch key {
			case "method":
				r.method, err = jsonscan.ReadString(value)
			case "params":
				r.params = value
			}
			return err
		})
		requests = append(requests, r)
		return err
	})
	return requests, err
}

// appendResponses appends inputResponses.
func appendResponses(b []byte, requests []inputRequest, responses [][]byte) []byte {
	var all jsonscan.Object
	for i, r := range requests {
		all.Add(r.key, responses[i])
	}
	return append(b, all.Close()...)
}

// nextParams returns the parameters of the next round: those of the first request, the
// responses of this round and its state. Responses of earlier rounds are left out.
func (w *inputRequired) nextParams(first json.RawMessage, responses [][]byte) json.RawMessage {
	b := bytes.TrimSuffix(bytes.TrimSpace(first), []byte("}"))
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		b = []byte("{")
	}
	b = bytes.Clone(b)
	member := func(name string) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, name...)
	}
	if len(w.requests) > 0 {
		member(`"inputResponses":`)
		b = appendResponses(b, w.requests, responses)
	}
	if w.state != nil {
		member(`"requestState":`)
		b = append(b, w.state...)
	}
	return append(b, '}')
}

// ContinueWithInput completes a request whose first result requests input. send sends the
// request for one round. Request.Timeout applies to each round, and not to the time in
// which handlers of the host get the input, which may take the user minutes.
// Request.TotalTimeout bounds everything since began.
func (h *Handler) ContinueWithInput(ctx context.Context, r transport.Request, began time.Time, result json.RawMessage,
	send func(context.Context, transport.Request) (json.RawMessage, error),
) (json.RawMessage, error) {
	call := &transport.InFlight{Method: r.Method, Target: r.Target, Began: r.Began}
	inputCtx, cancelInput := context.WithCancelCause(ctx)
	defer cancelInput(nil)
	h.Waiting.add(call, cancelInput)
	defer h.Waiting.remove(call)
	if r.TotalTimeout > 0 {
		var cancel context.CancelFunc
		inputCtx, cancel = overdue.WithDeadlineCause(inputCtx, began.Add(r.TotalTimeout), jsonrpc.ErrOverdue)
		defer cancel()
	}
	// empty counts the rounds in a row that requested no input.
	first, totalTimeout, empty := r.Params, r.TotalTimeout, 0
	for round := 1; ; round++ {
		// Step 1: read what the server requires, and bound the rounds.
		required, err := readInputRequired(result)
		r.Held.Release() // the result is read, and the handlers may take long
		switch {
		case err == nil && round == jsonrpc.MaxRounds:
			err = fmt.Errorf("it was sent %d times, and the server still requests input", round)
		case err == nil && len(required.requests) == 0 && required.state == nil:
			err = errors.New("the server requests input and does not say which")
		case err == nil && len(required.requests) == 0:
			if empty++; empty > MaxEmptyRounds {
				return nil, &mcpvisor.Error{Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeAnswered,
					Cause: fmt.Errorf("the server deferred the request %d times", empty)}
			}
		default:
			empty = 0
		}
		if err != nil {
			return nil, inputError(err, hintServerFault)
		}
		// Step 2: get the input from the handlers of the host, or pause before an empty round.
		if empty > 0 {
			h.pauseBeforeRound(inputCtx, empty)
		}
		responses, err := h.answerInputs(inputCtx, h.answererOf(r.Caller), required.requests)
		h.Waiting.remove(call) // from now on the request table has it
		switch {
		case h.lifetime.Cause() != nil:
			return nil, transport.DeathError(h.lifetime.Cause(), mcpvisor.OutcomeUnknown)
		case inputCtx.Err() != nil:
			return nil, jsonrpc.RequestError(inputCtx, nil, mcpvisor.OutcomeAnswered, nil)
		case err != nil:
			return nil, err
		}
		// Step 3: repeat the request with the input. Its own deadline is what is left of the
		// total limit.
		r.Params, r.RoundBegan = required.nextParams(first, responses), time.Now()
		if totalTimeout > 0 {
			r.TotalTimeout = max(totalTimeout-r.RoundBegan.Sub(began), time.Millisecond)
		}
		result, err = send(ctx, r)
		h.Waiting.add(call, cancelInput)
		if err != nil {
			if e, ok := errors.AsType[*mcpvisor.Error](err); ok && e.Outcome == mcpvisor.OutcomeNotSent {
				seen := *e
				seen.Outcome = mcpvisor.OutcomeUnknown // the server has seen the earlier rounds
				return nil, &seen
			}
			return nil, err
		}
		if !NeedsInput(r.Method, result) {
			return result, nil
		}
	}
}

// roundBackoff is the wait before the next round if the server deferred the request; up to a
// quarter is added at random.
var roundBackoff = backoff.Backoff{First: 500 * time.Millisecond, Max: 30 * time.Second}

// pauseBeforeRound waits before the round after n empty ones, longer each time. It ends early
// with ctx and with the session.
func (h *Handler) pauseBeforeRound(ctx context.Context, n int) {
	_ = backoff.SleepUntil(ctx, h.lifetime.Dead(), backoff.WithJitter(roundBackoff.Delay(n))) // the next round fails if either has ended
}

// answerInputs answers all input requests of a round concurrently. It returns at the first
// failure, when ctx ends and when the session ends. Handlers that ignore the end of their
// context are left behind.
func (h *Handler) answerInputs(ctx context.Context, by answerer, requests []inputRequest) ([][]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type done struct {
		i    int
		text []byte
		err  error
	}
	all := make(chan done, len(requests)) // has room for all, so no goroutine blocks at its end
	for i, r := range requests {
		go func() {
			d := done{i: i, err: inputError(errors.New("the observer ended its goroutine"), "")}
			defer func() { all <- d }()
			d.text, d.err = h.answerInput(ctx, by, r)
		}()
	}
	responses := make([][]byte, len(requests))
	for range requests {
		select {
		case d := <-all:
			if d.err != nil {
				return nil, d.err
			}
			responses[d.i] = d.text
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-h.lifetime.Dead():
			return nil, h.lifetime.Cause()
		}
	}
	return responses, nil
}

// answerInput answers one input request. Its errors go to the caller of the request, so they
// name the failure of the handler, which the server must not see.
func (h *Handler) answerInput(ctx context.Context, by answerer, r inputRequest) ([]byte, error) {
	if by.raw() && by.handlers.For(r.method) == nil {
		by = h.host()
	}
	params, err := decodeRequest(by, r.method, r.params)
	if err == errUnknownMethod {
		return nil, inputError(fmt.Errorf("%.60q requests %.60q, which clients do not have", h.Redactor.Text(r.key), h.Redactor.Text(r.method)), hintServerFault)
	}
	var text []byte
	if err == nil {
		text, err = h.dispatchObserved(ctx, by, r.method, r.params, params, nil)
	}
	if err == nil {
		return text, nil
	}
	hint := "set a handler for it, see WithElicitationHandler, WithSamplingHandler, WithRoots and WithCallHandlers"
	var hidden *hiddenError
	switch {
	case errors.As(err, &hidden):
		err, hint = hidden.err, ""
	default:
		if !isNotOffered(err) {
			hint = ""
		}
		err = h.Redactor.Error(err) // it may repeat texts of the server
	}
	return nil, inputError(fmt.Errorf("%.60q requests %s: %w", h.Redactor.Text(r.key), r.method, err), hint)
}

// decodeParams decodes the parameters of a request, which must be present, into p.
func decodeParams(params []byte, p mcp.Params) (mcp.Params, error) {
	if err := CheckParams(params); err != nil {
		return nil, err
	}
	if len(params) == 0 || string(params) == "null" {
		return nil, errInvalidParams("the parameters are missing")
	}
	if err := json.Unmarshal(params, p); err != nil {
		return nil, errInvalidParams("the parameters cannot be read: " + err.Error())
	}
	return p, nil
}

// inputError returns the error of a request whose input could not be supplied.
func inputError(err error, hint string) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrInputRequired, Outcome: mcpvisor.OutcomeAnswered, Cause: err, Hint: hint}
}
