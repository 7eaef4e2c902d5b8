// Package transporttest holds what the tests of several transports share: small servers,
// handlers of the host, and assertions about sessions. Only tests import it.
package transporttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

const (
	// Patience bounds the wait for a condition that must become true.
	Patience = time.Minute
	// TimeStep is the time between two checks of such a condition.
	TimeStep = 5 * time.Millisecond
)

// ClientInfo is how the client of the tests names itself.
var ClientInfo = &mcp.Implementation{Name: "test-client", Version: "1"}

// ReleaseAtEnd ends a session at the end of a test, and waits until it is released.
func ReleaseAtEnd(t *testing.T, s transport.Session) {
	t.Helper()
	t.Cleanup(func() {
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test is over"})
		RequireClosed(t, s.Released(), "session is not released")
	})
}

// OpenSession opens a session of a dialer, and releases it at the end of the test.
func OpenSession(t *testing.T, d transport.Dialer) transport.Session {
	t.Helper()
	s := d.NewSession()
	ReleaseAtEnd(t, s)
	require.NoError(t, s.Open(Context(t)))
	return s
}

// Context returns a context that ends with the test, or after Patience.
func Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// RequireClosed waits until c is closed.
func RequireClosed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(Patience):
		require.FailNow(t, what)
	}
}

// MemoryOptions are the options of sessions with servers in memory.
var MemoryOptions = transport.Options{ClientInfo: &mcp.Implementation{Name: "memory-test", Version: "1"}}

// EndSession ends a session and waits until it is released.
func EndSession(t *testing.T, s transport.Session) {
	t.Helper()
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test is over"})
	<-s.Released()
}

// ErrGivenUp is the cause of a session that a test ends.
var ErrGivenUp = &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"}

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
	"another call's timeout":  fmt.Errorf("other: %w", &mcpvisor.Error{Kind: mcpvisor.ErrTimeout, Cause: jsonrpc.ErrOverdue}),
	"the sentinel of timeout": mcpvisor.ErrTimeout,
	"another server's death":  &supervisor.Cause{Kind: supervisor.CauseExit, Message: "it ended"},
}

// RequireCanceled asserts that a call ended because its caller's context did.
func RequireCanceled(t *testing.T, err, is, cause error, outcome mcpvisor.Outcome) {
	t.Helper()
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.ErrCanceled, e.Kind, e.Error())
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

// AcceptAfter returns a form handler that calls f and then accepts.
func AcceptAfter(f func(ctx context.Context)) func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(ctx context.Context, _ string, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		f(ctx)
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
}

var (
	// AcceptAtOnce is a form handler that accepts without a delay.
	AcceptAtOnce = AcceptAfter(func(context.Context) {})
	// AnySample is a sampling handler that answers "hi".
	AnySample = func(context.Context, string, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return &mcp.CreateMessageWithToolsResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
	}
)

// ElicitRequest is a format for an elicitation of the server; its argument is the id.
const ElicitRequest = `{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"?"}}`

const (
	// FormRequired is a result that requests a form as its input.
	FormRequired = `{"resultType":"input_required","inputRequests":{"form":{"method":"elicitation/create","params":{"message":"?",
		"requestedSchema":{"type":"object","properties":{"level":{"type":"integer","default":3}}}}}},"requestState":"s"}`
	// DoneResult is a result that ends a request, with the text "input_required" in it.
	DoneResult = `{"resultType":"complete","content":[{"type":"text","text":"done, input_required no more: \"input_required\""}]}`
)

// SingleLine replaces the line breaks of a JSON text.
func SingleLine(text string) string { return string(jsonscan.OneLine([]byte(text))) }

// Secret is in the Secrets of the specifications of this package, so it is redacted.
const Secret = "hunter22"

// ErrByHost is the error of a failing handler.
var ErrByHost = errors.New("said by the host")
