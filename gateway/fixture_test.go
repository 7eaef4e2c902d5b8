package gateway

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// patience bounds every wait. Only a failing test waits so long.
const patience = 30 * time.Second

// newClient makes a client with the servers.
func newClient(t *testing.T, specs ...mcpvisor.ServerSpec) *facade.Client {
	t.Helper()
	c, err := facade.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	for _, spec := range specs {
		require.NoError(t, c.Register(t.Context(), spec))
	}
	return c
}

// fixture is a server in memory that is restarted at once, whatever happens. One that speaks all versions is spoken to in the
// newest one, so that it has no second session; see TestLegacy_one_process_for_all_who_are_asked.
func fixture(name string, script mcptest.Script) mcpvisor.ServerSpec {
	var era mcpvisor.Era
	if len(script.Versions) == 0 {
		era = mcpvisor.EraModern
	}
	return mcpvisor.ServerSpec{Name: name, Era: era, InMemory: mcptest.InMemory(script), Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond)}
}

// connect opens a session of the go-sdk with the newest version that it may use.
func connect(t *testing.T, transport mcp.Transport, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, opts).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	require.Equal(t, version, session.InitializeResult().ProtocolVersion)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// inBothEras runs f for sessions of the go-sdk before and since 2026-07-28.
func inBothEras(t *testing.T, f func(t *testing.T, version string)) {
	t.Helper()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) { f(t, version) })
	}
}

// receive returns the next value, or fails the test.
func receive[T any](t *testing.T, values <-chan T) T {
	t.Helper()
	select {
	case v := <-values:
		return v
	case <-time.After(patience):
		require.FailNow(t, "it never came")
		panic("unreachable")
	}
}

// until waits for a condition that other goroutines make true.
func until(t *testing.T, done func() bool) {
	t.Helper()
	require.Eventually(t, done, patience, time.Millisecond)
}

func text(t *testing.T, r *mcp.CallToolResult, err error) string {
	t.Helper()
	require.NoError(t, err)
	require.False(t, r.IsError, "%s", textOf(r))
	return textOf(r)
}

// modelError returns the structured content of a failed call.
func modelError(t *testing.T, r *mcp.CallToolResult, err error) facade.ModelError {
	t.Helper()
	require.NoError(t, err)
	require.True(t, r.IsError)
	encoded, err := json.Marshal(r.StructuredContent)
	require.NoError(t, err)
	var m facade.ModelError
	require.NoError(t, json.Unmarshal(encoded, &m))
	require.Equal(t, m.Message, textOf(r))
	return m
}

// raw is a session without the go-sdk, to send what that would not send.
type raw struct {
	t    *testing.T
	conn mcp.Connection
}

func openRaw(t *testing.T, transport mcp.Transport) raw {
	t.Helper()
	conn, err := transport.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return raw{t, conn}
}

func (r raw) send(id float64, method, params string) {
	r.t.Helper()
	made, err := jsonrpc.MakeID(id)
	require.NoError(r.t, err)
	require.NoError(r.t, r.conn.Write(r.t.Context(), &jsonrpc.Request{ID: made, Method: method, Params: json.RawMessage(params)}))
}

func (r raw) notify(method, params string) {
	r.t.Helper()
	require.NoError(r.t, r.conn.Write(r.t.Context(), &jsonrpc.Request{Method: method, Params: json.RawMessage(params)}))
}

func (r raw) read() jsonrpc.Message {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	m, err := r.conn.Read(ctx)
	require.NoError(r.t, err)
	return m
}

// call sends a request and returns its answer, which must be the next message.
func (r raw) call(method, params string) *jsonrpc.Response {
	r.t.Helper()
	return r.callWith(1, method, params)
}

// callWith is call with an id.
func (r raw) callWith(id float64, method, params string) *jsonrpc.Response {
	r.t.Helper()
	r.send(id, method, params)
	answer, ok := r.read().(*jsonrpc.Response)
	require.True(r.t, ok)
	require.Equal(r.t, int64(id), answer.ID.Raw())
	return answer
}
