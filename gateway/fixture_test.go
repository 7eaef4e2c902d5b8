package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// everything makes storms and floods as large as they were found necessary; without it they are a part of that.
var everything = flag.Bool("everything", false, "make storms and floods in full size")

// sized returns how often a test does something: all times, or a part of them.
func sized(all, part int) int {
	if *everything {
		return all
	}
	return part
}

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// patience bounds every wait. Only a failing test waits so long.
const patience = time.Minute

// newClient makes a client with the servers.
func newClient(t *testing.T, specs ...mcpvisor.ServerSpec) *facade.Client {
	t.Helper()
	return newClientWith(t, nil, specs...)
}

// newAskingClient makes a client whose servers may ask for everything.
func newAskingClient(t *testing.T, opts []facade.Option, specs ...mcpvisor.ServerSpec) *facade.Client {
	t.Helper()
	return newClientWith(t, append(opts, facade.WithDeclared(facade.Declared{Sampling: true, SamplingTools: true, Elicitation: true, URLElicitation: true, Roots: true})), specs...)
}

// newClientWith makes a client with options.
func newClientWith(t *testing.T, opts []facade.Option, specs ...mcpvisor.ServerSpec) *facade.Client {
	t.Helper()
	c, err := facade.New(opts...)
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

// answer reads the next answer; notifications may come before it.
func (r raw) answer() *jsonrpc.Response {
	r.t.Helper()
	for {
		if answer, ok := r.read().(*jsonrpc.Response); ok {
			return answer
		}
	}
}

// initializeWith begins a session of 2025-11-25 with capabilities.
func (r raw) initializeWith(capabilities string) {
	r.t.Helper()
	require.NoError(r.t, r.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"x","version":"1"}}`).Error)
	r.notify("notifications/initialized", "")
}

// settingsOf has settings that are valid.
func settingsOf(s Settings) *SettingsVar {
	v := new(SettingsVar)
	if err := v.Set(s); err != nil {
		panic(err)
	}
	return v
}

// withShare sets whether clients share these servers, or all.
func withShare(share Share, servers ...string) Option {
	if len(servers) == 0 {
		return WithSettings(settingsOf(Settings{Share: share}))
	}
	s := Settings{ShareOf: map[string]Share{}}
	for _, server := range servers {
		s.ShareOf[server] = share
	}
	return WithSettings(settingsOf(s))
}

// serveRaw is a server in memory before 2026-07-28 with one tool, x. on may be nil. What neither on nor answers have,
// and no plain server, has an empty result.
func serveRaw(on func(m *rawtest.Message) string, answers map[string]string) *mcpvisor.InMemory {
	return &mcpvisor.InMemory{Serve: rawServerOf(on, answers).Serve}
}

func rawServerOf(on func(m *rawtest.Message) string, answers map[string]string) *rawtest.Server {
	return &rawtest.Server{Answer: func(m *rawtest.Message) (members string) {
		if on != nil {
			members = on(m)
		}
		if members = cmp.Or(members, answers[m.Method]); members == "" && !slices.Contains([]string{"initialize", "server/discover", "tools/list"}, m.Method) {
			return `"result":{}`
		}
		return members
	}}
}

// legacyRaw is a server of serveRaw with a name, to which the client speaks as to one before 2026-07-28.
func legacyRaw(on func(m *rawtest.Message) string, answers map[string]string) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: serveRaw(on, answers)}
}

// incarnations is a server whose incarnations, numbered from 1, are servers of their own.
func incarnations(of func(n int) *rawtest.Server) *mcpvisor.InMemory {
	var started atomic.Int32
	return &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		return of(int(started.Add(1))).Serve(ctx, in, out, log)
	}}
}

// asksForm is a request of a server for a form.
func asksForm(id string) string {
	return `{"jsonrpc":"2.0","id":"` + id + `","method":"elicitation/create","params":` + wantsText + `}`
}

// legacyHandshake is the answer to initialize with these capabilities.
func legacyHandshake(capabilities string) string {
	return `"result":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"serverInfo":{"name":"raw","version":"1"}}`
}

// rawServer answers calls of x with a text: the members of the message after its id, or a result.
func rawServer(result string) *mcpvisor.InMemory {
	return serveRaw(func(m *rawtest.Message) string {
		if m.Method != "tools/call" {
			return ""
		}
		if result[0] == '{' {
			return `"result":` + result
		}
		return result
	}, nil)
}

// eagerServer is a server whose calls of x ask for a form. It answers the call at once with n bytes of text, or, for
// n = 0, dies.
func eagerServer(n int) *mcpvisor.InMemory {
	return serveRaw(func(m *rawtest.Message) string {
		if m.Method != "tools/call" {
			return ""
		}
		m.Send(`%s`, asksForm("q"))
		if n == 0 {
			return m.End(errors.New("it dies"))
		}
		return rawtest.Text(strings.Repeat("x", n))
	}, nil)
}

// asksFirst is a server that asks for a form because of each request, and answers it when it has the answer, whose
// text is in the answer. It waits for a value of ask, unless that is nil.
func asksFirst(ask <-chan struct{}) func(*rawtest.Message) string {
	waiting := map[string]string{} // the beginning of an answer, by the id of the question
	return func(m *rawtest.Message) string {
		var begin string
		switch m.Method {
		case "initialize":
			return legacyHandshake(`{"tools":{},"prompts":{},"resources":{}}`)
		case "prompts/list":
			return `"result":{"prompts":[{"name":"x"}]}`
		case "resources/list":
			return `"result":{"resources":[{"name":"x","uri":"x:y"}]}`
		case "resources/templates/list":
			return `"error":{"code":-32601,"message":"no"}`
		case "tools/call":
			begin = `{"content":[{"type":"text","text":`
		case "prompts/get":
			begin = `{"messages":[{"role":"user","content":{"type":"text","text":`
		case "resources/read":
			begin = `{"contents":[{"uri":"x:y","text":`
		case "":
			id, _ := strconv.Unquote(string(m.ID))
			text, _ := json.Marshal(string(m.Result))
			end := map[byte]string{'c': "}]}", 'm': "}}]}"}[waiting[id][2]]
			m.Send(`{"jsonrpc":"2.0","id":%s,"result":%s%s%s}`, id, waiting[id], text, end)
			return rawtest.None
		default:
			return ""
		}
		if ask != nil {
			<-ask
		}
		waiting[string(m.ID)] = begin
		m.Send(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":%s}`, m.ID, wantsText)
		return rawtest.None
	}
}

// waitingServer is a server of asksFirst, of which each incarnation begins with the first answer.
func waitingServer(ask <-chan struct{}) *mcpvisor.InMemory {
	return incarnations(func(int) *rawtest.Server { return rawServerOf(asksFirst(ask), nil) })
}

// cancelableServer is one of asksFirst that tells when a call is canceled.
func cancelableServer(told chan<- time.Time) *mcpvisor.InMemory {
	inner := asksFirst(nil)
	return serveRaw(func(m *rawtest.Message) string {
		if m.Method == "notifications/cancelled" {
			told <- time.Now()
		}
		return inner(m)
	}, nil)
}
