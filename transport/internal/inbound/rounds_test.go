package inbound

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A handler that does not return is left behind when the context or the session ends, and when
// another input request fails.
func TestHandler_answerInputs_handler_hangs(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	wants := []inputRequest{{key: "f", method: methodElicit, params: []byte(`{"message":"?"}`)}}
	stuck := func() *Handler {
		h := newTestHandler()
		h.Pool.Handlers.ElicitForm = transporttest.AcceptAfter(func(context.Context) { <-stop })
		return h
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := stuck().answerInputs(ctx, hostAnswers, wants)
	require.ErrorIs(t, err, context.Canceled)

	h := stuck()
	killed := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"}
	h.lifetime.End(killed)
	_, err = h.answerInputs(t.Context(), hostAnswers, wants)
	require.ErrorIs(t, err, killed)

	// The first failure ends the round.
	_, err = stuck().answerInputs(t.Context(), hostAnswers, append(wants, inputRequest{key: "g", method: "tools/list"}))
	require.ErrorContains(t, err, "which clients do not have")
}

// The failure of one input request cancels the others.
func TestHandler_answerInputs_cancels_after_a_failure(t *testing.T) {
	h := newTestHandler()
	ended := make(chan struct{})
	h.Pool.Handlers.ElicitForm = transporttest.AcceptAfter(func(ctx context.Context) {
		<-ctx.Done()
		close(ended)
	})
	_, err := h.answerInputs(t.Context(), hostAnswers, []inputRequest{
		{key: "f", method: methodElicit, params: []byte(`{"message":"?"}`)}, {key: "g", method: "tools/list"}})
	require.ErrorContains(t, err, "which clients do not have")
	transporttest.RequireClosed(t, ended, "the other handler still runs")
}

// The pause before the next round ends with the call and with the session.
func TestHandler_pauseBeforeRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		newTestHandler().pauseBeforeRound(ctx, 1)
		h := newTestHandler()
		h.lifetime.End(transporttest.ErrGivenUp)
		h.pauseBeforeRound(t.Context(), 1)
		require.Zero(t, time.Since(began))
	})
}

// The parameters of an input request are bounded like those of a JSON-RPC request.
func TestHandler_answerInput_too_large(t *testing.T) {
	_, err := newTestHandler().answerInput(t.Context(), hostAnswers, inputRequest{key: "k", method: methodElicit,
		params: []byte(`{"message":"?","requestedSchema":` + transporttest.BroadObject(30_000) + `}`)})
	require.ErrorContains(t, err, "the parameters hold more than 50000 values")
}

// hostAnswers is a client whose handlers answer everything.
var hostAnswers = answerer{offer: transport.Offer{Sample: true, SampleTools: true, ElicitForm: true, ElicitURL: true, Roots: true}}

// A task in place of a result is no success: the tool has not ended. It is one that the caller
// follows if the server offers tasks, or if the call asked for one (2025-11-25).
func TestRequest_taskInsteadOfResult(t *testing.T) {
	const either, modern, never = "either", "modern", "never"
	for result, era := range map[string]string{
		`{"task":{"taskId":"1","status":"working"}}`:            either,
		`{ "_meta":{}, "task" : {"taskId":"1"}}`:                either,
		`{"task":{"taskId":"1"},"content":null}`:                either,
		`{"resultType":"task","taskId":"1","status":"working"}`: modern,
		`{"content":[],"resultType":"task","taskId":"1"}`:       modern,
		`{"content":[],"task":{"taskId":"1"}}`:                  never,
		`{"task":{"taskId":"1"},"structuredContent":{}}`:        never,
		`{"task":"text"}`: never,
		`{"content":[{"type":"text","text":"\"task\""}]}`:                             never,
		`{"content":[],"structuredContent":{"task":{"taskId":"1"}}}`:                  never,
		`{"structuredContent":{"resultType":"task"},"resultType":"complete"}`:         never,
		`{"isError":true,"content":[{"type":"text","text":"x"}],"_meta":{"task":{}}}`: never,
	} {
		for _, isModern := range []bool{false, true} {
			s := RequestSender{Modern: isModern, Handshake: new(jsonrpc.HandshakeWatch),
				Send: func(context.Context, transport.Request) (json.RawMessage, error) { return json.RawMessage(result), nil }}
			request := func(r *transport.Request) (json.RawMessage, error) {
				if isModern {
					return s.Request(t.Context(), r)
				}
				return s.ObserveLegacy(r, json.RawMessage(result), nil)
			}
			got, err := request(&transport.Request{Method: "tools/call"})
			if era == either || era == modern && isModern {
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e, "%s, modern %v", result, isModern)
				require.Nil(t, got)
				require.Equal(t, mcpvisor.ErrProtocol, e.Kind)
				require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
				require.ErrorContains(t, err, "began a task")
				s.Tasks = isModern
				got, err = request(&transport.Request{Method: "tools/call", AsTask: !isModern})
				require.Equal(t, transport.ErrTask, err)
				require.Equal(t, result, string(got))
				continue
			}
			require.NoError(t, err, "%s, modern %v", result, isModern)
			require.Equal(t, result, string(got))
		}
	}
	s := RequestSender{Handshake: new(jsonrpc.HandshakeWatch)}
	_, err := s.ObserveLegacy(&transport.Request{Method: "tasks/get"}, json.RawMessage(`{"task":{}}`), nil)
	require.NoError(t, err)
}
