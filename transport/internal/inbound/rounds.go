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
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// Multi round-trip requests (2026-07-28, SEP-2322): a server that wants
// something of the client answers with resultType "input_required" and what it
// wants. The client repeats the request, with the responses and the server's
// state, as often as the server wants, and within reason.

const (

	// MaxEmptyRounds is how many rounds in which nothing is wanted are waited for; a
	// server puts calls off in this way.
	MaxEmptyRounds = 3
)

const resultTypeInputRequired = `"input_required"`

// NeedsInput reports whether a result is no end of its request. Most results
// do not hold the word at all.
func NeedsInput(method string, result []byte) (yes bool) {
	if !bytes.Contains(result, []byte(resultTypeInputRequired)) {
		return false
	}
	switch method {
	case "tools/call", "prompts/get", "resources/read":
	default:
		return false
	}
	_ = jsonscan.EachMember(result, func(key string, value []byte) error {
		if key == "resultType" {
			yes = string(value) == resultTypeInputRequired
		}
		return nil
	})
	return yes
}

// inputRequired is what a server wants before it goes on.
type inputRequired struct {
	requests []inputRequest
	state    []byte // as it stands in the result; nil if missing
}

type inputRequest struct {
	key    string
	method string
	params []byte
}

func readInputRequired(result []byte) (w inputRequired, err error) {
	err = jsonscan.EachMember(result, func(key string, value []byte) error {
		switch {
		case string(value) == "null":
		case key == "requestState":
			w.state = value
		case key == "inputRequests":
			w.requests = nil
			return jsonscan.EachMember(value, func(key string, value []byte) error {
				r := inputRequest{key: key}
				if len(w.requests) == jsonrpc.MaxInputRequests {
					return fmt.Errorf("more than %d things are wanted at once", jsonrpc.MaxInputRequests)
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
				w.requests = append(w.requests, r)
				return err
			})
		}
		return nil
	})
	return w, err
}

// nextParams is the parameters of the next round: the first ones, and what this
// round has brought. Nothing of earlier rounds stays.
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
		member(`"inputResponses":{`)
		for i, r := range w.requests {
			if i > 0 {
				b = append(b, ',')
			}
			key, _ := json.Marshal(r.key) // a string always marshals
			b = append(append(append(b, key...), ':'), responses[i]...)
		}
		b = append(b, '}')
	}
	if w.state != nil {
		member(`"requestState":`)
		b = append(b, w.state...)
	}
	return append(b, '}')
}

// ContinueWithInput goes on with a request whose first answer, result, wants input. send
// sends one round. Request.Timeout bounds each round for itself and does not
// run while the input is gathered, which may take a person; HardMax bounds the
// whole since began.
func (a *Handler) ContinueWithInput(ctx context.Context, r transport.Request, began time.Time, result json.RawMessage,
	send func(context.Context, transport.Request) (json.RawMessage, error),
) (json.RawMessage, error) {
	inputCtx := ctx
	if r.TotalTimeout > 0 {
		var cancel context.CancelFunc
		inputCtx, cancel = context.WithDeadlineCause(ctx, began.Add(r.TotalTimeout), jsonrpc.ErrOverdue)
		defer cancel()
	}
	first, totalTimeout, empty := r.Params, r.TotalTimeout, 0
	for round := 1; ; round++ {
		required, err := readInputRequired(result)
		r.Held.Release() // the result is decoded; asking for the input may take long
		switch {
		case err == nil && round == jsonrpc.MaxRounds:
			err = fmt.Errorf("it was sent %d times, and the server still wants more", round)
		case err == nil && len(required.requests) == 0 && required.state == nil:
			err = errors.New("the server does not say which")
		case err == nil && len(required.requests) == 0:
			if empty++; empty > MaxEmptyRounds {
				return nil, &mcpvisor.Error{Kind: mcpvisor.KindUnavailable, Outcome: mcpvisor.OutcomeAnswered,
					Cause: fmt.Errorf("the server put the request off %d times", empty)}
			}
		default:
			empty = 0
		}
		if err != nil {
			return nil, inputError(err, "the server is at fault")
		}
		if empty > 0 {
			a.pauseBeforeRound(inputCtx, empty)
		}
		responses, err := a.answerInputs(inputCtx, required.requests)
		switch {
		case a.lifetime.Cause() != nil:
			return nil, jsonrpc.DeathError(a.lifetime.Cause(), mcpvisor.OutcomeUnknown)
		case inputCtx.Err() != nil:
			return nil, jsonrpc.RequestError(inputCtx, nil, mcpvisor.OutcomeAnswered, nil)
		case err != nil:
			return nil, err
		}
		r.Params = required.nextParams(first, responses)
		if totalTimeout > 0 {
			r.TotalTimeout = max(totalTimeout-time.Since(began), time.Millisecond)
		}
		if result, err = send(ctx, r); err != nil {
			var e *mcpvisor.Error
			if errors.As(err, &e) && e.Outcome == mcpvisor.OutcomeNotSent {
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

// roundBackoff is the wait before a round that a server put off; a quarter is added
// at random.
var roundBackoff = backoff.Backoff{First: 500 * time.Millisecond, Max: 30 * time.Second}

// pauseBeforeRound waits before the next round, longer each time.
func (a *Handler) pauseBeforeRound(ctx context.Context, n int) {
	_ = backoff.SleepUntil(ctx, a.lifetime.Dead(), backoff.WithJitter(roundBackoff.Delay(n))) // the next round fails if either has ended
}

// answerInputs has everything answered that a server wants, at the same time. The
// first failure ends it, and so do ctx and the death of the session; it waits
// for nothing that goes on nevertheless.
func (a *Handler) answerInputs(ctx context.Context, requests []inputRequest) ([][]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type done struct {
		i    int
		text []byte
		err  error
	}
	all := make(chan done, len(requests))
	for i, r := range requests {
		go func() {
			text, err := a.answerInput(ctx, r)
			all <- done{i, text, err}
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
		case <-a.lifetime.Dead():
			return nil, a.lifetime.Cause()
		}
	}
	return responses, nil
}

// answerInput answers one thing that a server wants.
func (a *Handler) answerInput(ctx context.Context, r inputRequest) ([]byte, error) {
	req, err := a.requestFrom(r.method, r.params)
	if err == errUnknownMethod {
		return nil, inputError(fmt.Errorf("%.60q wants %.60q, which clients do not have", a.Redactor.Text(r.key), a.Redactor.Text(r.method)), "the server is at fault")
	}
	var text []byte
	if err == nil {
		_, text, err = a.dispatch(ctx, r.method, req, nil)
	}
	if err == nil {
		return text, nil
	}
	hint := "set a handler for it, see WithElicitationHandler, WithSamplingHandler and WithRoots"
	var own *hiddenError
	switch {
	case errors.As(err, &own):
		err, hint = own.err, ""
	default:
		if !isNotOffered(err) {
			hint = ""
		}
		err = a.Redactor.Error(err) // it may repeat what stands in the question
	}
	return nil, inputError(fmt.Errorf("%.60q wants %s: %w", a.Redactor.Text(r.key), r.method, err), hint)
}

func decodeParams[P any](params []byte, request func(*P) mcp.Request) (mcp.Request, error) {
	if err := CheckParams(params); err != nil {
		return nil, err
	}
	p := new(P)
	if len(params) == 0 || string(params) == "null" {
		return nil, errInvalidParams("the parameters are missing")
	}
	if err := json.Unmarshal(params, p); err != nil {
		return nil, errInvalidParams("the parameters cannot be read: " + err.Error())
	}
	return request(p), nil
}

// inputError is the error of a request that wants what it does not get.
func inputError(err error, hint string) *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.KindInputRequired, Outcome: mcpvisor.OutcomeAnswered, Cause: err, Hint: hint}
}
