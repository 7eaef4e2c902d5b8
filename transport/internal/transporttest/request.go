package transporttest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/stretchr/testify/require"
)

// BroadObject is an object of n small objects: 8 bytes each as text, 400 as a map.
func BroadObject(n int) string { return `{"m":[` + strings.Repeat(`{"a":0},`, n) + `0]}` }

// Filler is a tool result with a text of size bytes.
func Filler(size int) string {
	return `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
}

// Answered holds what Session.Request returned.
type Answered struct {
	Result json.RawMessage
	Err    error
}

// StartRequest sends ToolCall in a goroutine of its own.
func StartRequest(ctx context.Context, s transport.Session, held *budget.Share) <-chan Answered {
	done := make(chan Answered, 1)
	go func() {
		r := ToolCall
		r.Held = held
		result, err := s.Request(ctx, r)
		done <- Answered{result, err}
	}()
	return done
}

// RequireFailed waits for the end of a request and asserts its error.
func RequireFailed(t *testing.T, done <-chan Answered, kind error) {
	t.Helper()
	got := <-done
	require.ErrorIs(t, got.Err, kind)
}

// ForeignCauses are errors of other operations that may be the cause of a caller's context.
// An errgroup, for example, cancels its context with the first error.
var ForeignCauses = map[string]error{
	"a refused dial":          &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
	"a refused proxy":         &net.OpError{Op: "proxyconnect", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
	"an unknown host":         &net.DNSError{Name: "db.example", IsNotFound: true},
	"another call's timeout":  fmt.Errorf("other: %w", &mcpvisor.Error{Kind: mcpvisor.KindTimeout, Cause: jsonrpc.ErrOverdue}),
	"the sentinel of timeout": mcpvisor.ErrTimeout,
	"another server's death":  &supervisor.Cause{Kind: supervisor.CauseExit, Message: "it ended"},
}

// RequireCanceled asserts that a call ended because its caller's context did.
func RequireCanceled(t *testing.T, err, is, cause error, outcome mcpvisor.Outcome) {
	t.Helper()
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.KindCanceled, e.Kind, e.Error())
	require.Equal(t, outcome, e.Outcome, e.Error())
	require.ErrorIs(t, err, is)
	if cause != nil {
		require.ErrorIs(t, err, cause)
	}
}

// FormWith is the schema of a form with these fields.
func FormWith(text string) string { return `{"type":"object","properties":{` + text + `}}` }

// DecodeJSON decodes a JSON text.
func DecodeJSON(t *testing.T, text string) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// ToolCall calls the tool echo.
var ToolCall = transport.Request{Method: "tools/call", Target: "echo", Params: json.RawMessage(`{"name":"echo","arguments":{}}`)}

// HugeLimits are limits that overflow an int when the size of a buffer is added.
var HugeLimits = []int{math.MaxInt, math.MaxInt - 1, math.MaxInt - jsonrpc.ReadBufferSize, math.MaxInt - jsonrpc.ReadBufferSize + 1, math.MaxInt/2 + 1}

// TinyCall is a call of a tool that LegacyServer answers.
func TinyCall(tool string) transport.Request {
	return transport.Request{Method: "tools/call", Target: tool, Params: json.RawMessage(`{"name":"` + tool + `"}`)}
}

// ProgressText is the message of a report with control characters.
const ProgressText = "step \x1b[31mone\u202e of two\nwith "

// LeaveIDs makes a session behave as if all but n of its ids had been used.
func LeaveIDs(ids *jsonrpc.RequestIDs, n int64) { ids.Skip(n) }

// ProgressToken is the progress token of a request.
func ProgressToken(t *testing.T, params json.RawMessage) (token int64) {
	t.Helper()
	var p struct {
		Meta struct {
			Token int64 `json:"progressToken"`
		} `json:"_meta"`
	}
	require.NoError(t, json.Unmarshal(params, &p))
	return p.Meta.Token
}
