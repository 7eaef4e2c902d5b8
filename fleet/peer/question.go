package peer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/fleet/internal/varint"
	"github.com/mcpvisor/mcpvisor/transport"
)

// During a call an MCP server may ask for the model, the user or the directories of the caller (sampling,
// elicitation, roots). The node of the server sends such a question to the node of the caller, and the
// handlers of the caller answer it.

const (
	// maxQuestions bounds the questions of one stream that wait for an answer.
	maxQuestions = 256
	// maxQuestionBytes bounds a question, and the text of an error that answers one.
	maxQuestionBytes = 8 << 20
	// maxAnswerers bounds the different handlers of the calls in flight on one stream.
	maxAnswerers = 4096
)

// answerer stands for the handlers of a caller on the node of the server. All calls of one stream with
// the same handlers share one answerer, because the facade tells callers apart by their handlers.
// Example: calls 7 and 9 have the same handlers, and both servers get those of one answerer. A question
// of the server of call 9 travels with the number 9; if both calls are at that server, with either
// number.
type answerer struct {
	handlers *transport.CallHandlers
	calls    map[uint64]string // the servers of the calls in flight; guarded by the mutex of the stream
}

// callOf returns the number of a call that a question of a server may belong to: a call at that server, if
// there is one. It leaves out calls that the caller has given up. 0: none is left. The mutex of the stream
// is locked.
func (a *answerer) callOf(server string, givenUp map[uint64]bool) (number uint64) {
	for n, of := range a.calls {
		switch {
		case givenUp[n]:
		case of == server:
			return n
		default:
			number = n
		}
	}
	return number
}

// reply is the answer to a question.
type reply struct {
	result json.RawMessage
	err    error
}

// refusing are the handlers of calls whose callers have handlers that answer nothing.
var refusing transport.CallHandlers

// answererOf returns the answerer of a call, and adds the call to it.
func (s *serverStream) answererOf(c *call, number uint64) (*answerer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answerers[c.answerer]
	if a == nil {
		if len(s.answerers) >= maxAnswerers {
			return nil, errors.New("the calls in flight have too many different handlers")
		}
		a = &answerer{handlers: &transport.CallHandlers{}, calls: map[uint64]string{}}
		if c.all || c.answers != (transport.Offer{}) {
			a.handlers.Raw = func(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, error) {
				return s.ask(ctx, a, relay.ServerRequest{Server: server, Method: method, Params: params})
			}
			a.handlers.RawOffer = c.answers
		}
		s.answerers[c.answerer] = a
	}
	a.calls[number] = c.server
	return a, nil
}

// leave removes a call from its answerer. The answerer ends with its last call.
func (s *serverStream) leave(id, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.answerers[id]; a != nil {
		if delete(a.calls, number); len(a.calls) == 0 {
			delete(s.answerers, id)
		}
	}
}

// ask sends a question to the node of the caller, and waits for the answer. If the caller has given up the
// call with whose number it was sent, ask sends it with that of another call.
func (s *serverStream) ask(ctx context.Context, a *answerer, r relay.ServerRequest) (json.RawMessage, error) {
	if len(r.Params) > maxQuestionBytes {
		return nil, fmt.Errorf("the request has %d bytes", len(r.Params))
	}
	givenUp := map[uint64]bool{}
	for {
		s.mu.Lock()
		number := a.callOf(r.Server, givenUp)
		s.mu.Unlock()
		result, err := s.askBy(ctx, number, r)
		if !errors.Is(err, errGivenUp) {
			return result, err
		}
		givenUp[number] = true
	}
}

// errGivenUp is the answer to a question with the number of a call that the caller has given up.
var errGivenUp = errors.New("the caller has given up the call")

// askBy sends a question with the number of a call, and waits for the answer.
func (s *serverStream) askBy(ctx context.Context, number uint64, r relay.ServerRequest) (json.RawMessage, error) {
	s.mu.Lock()
	if number == 0 || len(s.questions) >= maxQuestions {
		s.mu.Unlock()
		return nil, errors.New("no call is in flight that the request belongs to, or too many requests wait")
	}
	s.lastAsked++
	id, answered := s.lastAsked, make(chan reply, 1)
	s.questions[id] = answered
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.questions, id)
		s.mu.Unlock()
	}()
	body := binary.AppendUvarint(nil, id)
	body = varint.AppendText(varint.AppendText(body, r.Server), r.Method)
	question := &framing.Message{What: messageQuestion, Call: number, Body: append(body, r.Params...)}
	s.Add(question)
	select {
	case got := <-answered:
		return got.result, got.err
	case <-ctx.Done():
		if !s.Withdraw(question) {
			s.Send(messageWithdraw, number, binary.AppendUvarint(nil, id))
		}
		return nil, context.Cause(ctx)
	case <-s.Ended():
		return nil, errors.New("the node of the caller is gone")
	}
}

// Kinds of answers.
const (
	answerResult = iota
	answerRPCError
	answerError
	answerGivenUp // see errGivenUp
)

// answered hands an answer to the goroutine that waits for it.
func (s *serverStream) answered(body []byte) error {
	r := varint.Reader{Rest: body}
	id, kind := r.Uint(), r.Byte()
	var got reply
	switch {
	case r.Failed:
		return errors.New("an answer cannot be read")
	case kind == answerResult:
		got.result = r.Rest
	case kind == answerRPCError:
		rpc := new(jsonrpc.Error)
		if got.err = rpc; json.Unmarshal(r.Rest, rpc) != nil {
			got.err = errors.New("the node of the caller answered with an error that cannot be read")
		}
	case kind == answerGivenUp:
		got.err = errGivenUp
	default:
		got.err = errors.New(string(r.Rest))
	}
	s.mu.Lock()
	waiting := s.questions[id]
	delete(s.questions, id)
	s.mu.Unlock()
	if waiting != nil {
		waiting <- got
	}
	return nil
}

// question answers a question in a goroutine of its own. number is that of its call, and p is the call;
// nil: it has ended on this node.
func (s *clientStream) question(p *pending, number uint64, body []byte) error {
	r := varint.Reader{Rest: body}
	id := r.Uint()
	q := relay.ServerRequest{Server: r.Text(), Method: r.Text()}
	if q.Params = r.Rest; r.Failed {
		return errors.New("a question cannot be read")
	}
	if len(q.Params) == 0 {
		q.Params = nil
	}
	if p != nil && p.handlers == nil {
		return errors.New("a question for a call without handlers")
	}
	until := context.Background()
	if p != nil {
		until = p.answerer.ctx
	}
	ctx, cancel := context.WithCancel(until)
	s.mu.Lock()
	full := len(s.questions) >= maxQuestions || s.questions[id] != nil
	if !full {
		s.questions[id] = cancel
	}
	s.mu.Unlock()
	if full {
		cancel()
		return errors.New("more questions than may wait for an answer")
	}
	reply := func(b []byte) { // the question counts for maxQuestions until the answer is sent
		s.Add(&framing.Message{What: messageAnswer, Call: number, Body: b, Done: func() {
			s.mu.Lock()
			delete(s.questions, id)
			s.mu.Unlock()
		}})
	}
	if p == nil {
		cancel()
		reply(encodeAnswer(id, nil, errGivenUp))
		return nil
	}
	go func() { // for as long as the handler takes; nothing waits for it
		result, err := Answer(ctx, p.handlers, q)
		cancel()
		reply(encodeAnswer(id, result, err))
	}()
	return nil
}

// withdrawn ends the context of the handler of a question: the call that asked has ended.
func (s *clientStream) withdrawn(body []byte) {
	r := varint.Reader{Rest: body}
	s.mu.Lock()
	cancel := s.questions[r.Uint()]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// declared returns what handlers answer. all: they answer everything.
func declared(h *transport.CallHandlers) (answers transport.Offer, all bool) {
	if h.Raw != nil {
		return h.RawOffer, h.RawOffer == transport.Offer{}
	}
	answers = h.Offer()
	answers.SampleTools = answers.SampleTools && answers.Sample
	return answers, false
}

// Answer answers a question with the handlers of its call. A panic of a handler is an error.
func Answer(ctx context.Context, h *transport.CallHandlers, r relay.ServerRequest) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, errors.New("the handler of the caller panicked")
		}
	}()
	var value any
	switch {
	case h.Raw != nil:
		return h.Raw(ctx, r.Server, r.Method, r.Params)
	case r.Method == "sampling/createMessage" && h.Sample != nil:
		p := new(mcp.CreateMessageWithToolsParams)
		if err := json.Unmarshal(r.Params, p); err != nil {
			return nil, invalidParams(err)
		}
		value, err = h.Sample(ctx, r.Server, p)
	case r.Method == "elicitation/create":
		p := new(mcp.ElicitParams)
		if err := json.Unmarshal(r.Params, p); err != nil {
			return nil, invalidParams(err)
		}
		f := h.ElicitForm
		if p.Mode == "url" {
			f = h.ElicitURL
		}
		if f == nil {
			return nil, errNoHandler
		}
		value, err = f(ctx, r.Server, p)
	case r.Method == "roots/list" && h.Roots != nil:
		roots, failed := h.Roots(ctx, r.Server)
		value, err = map[string]any{"roots": append([]*mcp.Root{}, roots...)}, failed
	default:
		return nil, errNoHandler
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func invalidParams(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
}

var errNoHandler = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the caller has no handler for this request"}

// encodeAnswer encodes the answer to a question.
func encodeAnswer(id uint64, result json.RawMessage, err error) []byte {
	b := binary.AppendUvarint(nil, id)
	var rpc *jsonrpc.Error
	switch {
	case err == nil:
		return append(append(b, answerResult), result...)
	case errors.Is(err, errGivenUp):
		return append(b, answerGivenUp)
	case errors.As(err, &rpc):
		if encoded, failed := json.Marshal(rpc); failed == nil && len(encoded) <= maxQuestionBytes {
			return append(append(b, answerRPCError), encoded...)
		}
	}
	text := err.Error()
	return append(append(b, answerError), text[:min(len(text), maxFailureText)]...)
}
