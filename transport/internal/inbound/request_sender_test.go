package inbound

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

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
			got, err := s.Request(t.Context(), &transport.Request{Method: "tools/call"})
			if era == either || era == modern && isModern {
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e, "%s, modern %v", result, isModern)
				require.Nil(t, got)
				require.Equal(t, mcpvisor.KindProtocol, e.Kind)
				require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
				require.ErrorContains(t, err, "began a task")
				s.Tasks = isModern
				got, err = s.Request(t.Context(), &transport.Request{Method: "tools/call", AsTask: !isModern})
				require.Equal(t, transport.ErrTask, err)
				require.Equal(t, result, string(got))
				continue
			}
			require.NoError(t, err, "%s, modern %v", result, isModern)
			require.Equal(t, result, string(got))
		}
	}
	s := RequestSender{Handshake: new(jsonrpc.HandshakeWatch),
		Send: func(context.Context, transport.Request) (json.RawMessage, error) {
			return json.RawMessage(`{"task":{}}`), nil
		}}
	_, err := s.Request(t.Context(), &transport.Request{Method: "tasks/get"})
	require.NoError(t, err)
}
