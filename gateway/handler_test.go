package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/longresult"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// serveHTTP serves a handler on a loopback address.
func serveHTTP(t *testing.T, c *facade.Client, opts ...Option) (*Server, string) {
	t.Helper()
	return serveHTTPWith(t, func(*http.Server) {}, c, opts...)
}

// serveHTTPWith serves it by a server that the test changes before it starts.
func serveHTTPWith(t *testing.T, change func(*http.Server), c *facade.Client, opts ...Option) (*Server, string) {
	t.Helper()
	s := Handler(c, opts...)
	server := httptest.NewUnstartedServer(s)
	change(server.Config)
	server.Start()
	t.Cleanup(func() {
		s.Close()
		server.Close()
		until(t, func() bool { return s.Status().InFlight == 0 && s.Status().Sessions == 0 })
	})
	return s, server.URL
}

// overHTTP opens a session of the go-sdk.
func overHTTP(t *testing.T, url, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return connect(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: newHTTPClient(t)}, version, opts)
}

func newHTTPClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// peer sends HTTP requests without the go-sdk.
type peer struct {
	t       *testing.T
	url     string
	client  *http.Client
	session string
	header  http.Header
}

func newPeer(t *testing.T, url string) *peer {
	t.Helper()
	return &peer{t: t, url: url, client: newHTTPClient(t), header: http.Header{}}
}

// do sends a request. Its body is closed at the end of the test.
func (p *peer) do(ctx context.Context, method, body string, header ...string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, p.url, strings.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if p.session != "" {
		r.Header.Set(sessionHeader, p.session)
	}
	for name, values := range p.header {
		r.Header[name] = values
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	response, err := p.client.Do(r)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// post sends a message, and returns the status and the body of the answer.
func (p *peer) post(body string, header ...string) (status int, answer string) {
	p.t.Helper()
	response := p.do(p.t.Context(), http.MethodPost, body, header...)
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}

func initializeRequest(version string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"peer","version":"1"}}}`
}

// initialize opens a session before 2026-07-28.
func (p *peer) initialize(version string) {
	p.t.Helper()
	p.initializeWith(version, "{}")
	status, _ := p.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	require.Equal(p.t, http.StatusAccepted, status)
}

func memberOf(t *testing.T, text []byte, path ...string) string {
	t.Helper()
	for _, name := range path {
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(text, &members), "%s", text)
		text = members[name]
	}
	return string(text)
}

// events reads a stream of events: id and data.
type events struct {
	t    *testing.T
	body *bufio.Reader
	stop context.CancelFunc
}

func (p *peer) listen(header ...string) events {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	p.t.Cleanup(cancel)
	response := p.do(ctx, http.MethodGet, "", header...)
	require.Equal(p.t, http.StatusOK, response.StatusCode)
	require.Equal(p.t, "text/event-stream", response.Header.Get("Content-Type"))
	return events{p.t, bufio.NewReader(response.Body), cancel}
}

// next returns the next event that is no comment; false at the end of the stream.
func (e events) next() (id, data string, ok bool) {
	e.t.Helper()
	for {
		line, err := e.body.ReadString('\n')
		if err != nil {
			return "", "", false
		}
		line = strings.TrimSuffix(line, "\n")
		if value, is := strings.CutPrefix(line, "id: "); is {
			id = value
		}
		if value, is := strings.CutPrefix(line, "data: "); is {
			data = value
		}
		if line == "" && (id != "" || data != "") {
			return id, data, true
		}
	}
}

func toolCallOf(id int, name, arguments string) string {
	text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": name, "arguments": json.RawMessage(arguments)}})
	return string(text)
}

// A client of 2026-07-28 needs no session, and what stands in its headers must be true.
func TestHandler_headers_of_2026(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	p := newPeer(t, url)
	const capabilities = `"io.modelcontextprotocol/clientCapabilities":{}`
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` + capabilities + `}`
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a__echo","arguments":{"text":"x"},` + meta + `}}`
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
	for what, try := range map[string]struct {
		body   string
		header []string
		status int
		code   string
	}{
		"as it should be":      {call, []string{versionHeader, "2026-07-28", methodHeader, "tools/call", nameHeader, "a__echo"}, 200, ""},
		"encoded":              {call, []string{versionHeader, "2026-07-28", methodHeader, "tools/call", nameHeader, "=?base64?YV9fZWNobw==?="}, 200, ""},
		"no version":           {call, []string{methodHeader, "tools/call", nameHeader, "a__echo"}, 400, "-32020"},
		"another version":      {call, []string{versionHeader, "2025-11-25", methodHeader, "tools/call", nameHeader, "a__echo"}, 400, "-32020"},
		"no version in params": {strings.Replace(call, meta, `"_meta":{}`, 1), []string{versionHeader, "2026-07-28", methodHeader, "tools/call", nameHeader, "a__echo"}, 400, "-32602"},
		"no capabilities":      {strings.Replace(call, ","+capabilities, "", 1), []string{versionHeader, "2026-07-28", methodHeader, "tools/call", nameHeader, "a__echo"}, 400, "-32602"},
		"unknown version":      {strings.ReplaceAll(call, "2026-07-28", "2027-01-01"), []string{versionHeader, "2027-01-01", methodHeader, "tools/call", nameHeader, "a__echo"}, 400, "-32022"},
		"no method":            {call, []string{versionHeader, "2026-07-28", nameHeader, "a__echo"}, 400, "-32020"},
		"another method":       {call, []string{versionHeader, "2026-07-28", methodHeader, "tools/list", nameHeader, "a__echo"}, 400, "-32020"},
		"no name":              {call, []string{versionHeader, "2026-07-28", methodHeader, "tools/call"}, 400, "-32020"},
		"another name":         {call, []string{versionHeader, "2026-07-28", methodHeader, "tools/call", nameHeader, "a__add"}, 400, "-32020"},
		"a list":               {list, []string{versionHeader, "2026-07-28", methodHeader, "tools/list"}, 200, ""},
		"unknown method":       {strings.Replace(list, "tools/list", "tools/nothing", 1), []string{versionHeader, "2026-07-28", methodHeader, "tools/nothing"}, 404, "-32601"},
		"of sessions":          {strings.Replace(list, "tools/list", "resources/subscribe", 1), []string{versionHeader, "2026-07-28", methodHeader, "resources/subscribe"}, 404, "-32601"},
	} {
		status, answer := p.post(try.body, try.header...)
		require.Equal(t, try.status, status, "%s: %s", what, answer)
		require.Equal(t, "7", memberOf(t, []byte(answer), "id"), what)
		if try.code == "" {
			require.Equal(t, `"complete"`, memberOf(t, []byte(answer), "result", "resultType"), what)
			continue
		}
		require.Equal(t, try.code, memberOf(t, []byte(answer), "error", "code"), what)
	}
}

// A session continues in another handler with the same key, as after kill -9: its next call
// succeeds, and a client that comes back with the id of its last event is told what has changed.
func TestHandler_session_survives_its_process(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	key := WithSessionKey(bytes.Repeat([]byte{7}, 32))
	closed, first := serveHTTP(t, c, key)
	_, second := serveHTTP(t, c, key)
	_, stranger := serveHTTP(t, c)
	p := newPeer(t, first)
	p.initialize("2025-11-25")
	stream := p.listen()
	told, _, ok := stream.next()
	require.True(t, ok, "it begins with an id")
	stream.stop()
	closed.Close()
	status, answer := p.post(toolCallOf(2, "a__echo", `{"text":"x"}`))
	require.Equal(t, http.StatusServiceUnavailable, status, "a 404 would end the session: %s", answer)
	require.Contains(t, answer, "Nothing was done")
	require.Equal(t, http.StatusServiceUnavailable, p.do(t.Context(), http.MethodGet, "").StatusCode)

	p.url = second
	status, answer = p.post(toolCallOf(2, "a__echo", `{"text":"x"}`))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"text":"x"`)
	again := p.listen(eventHeader, told)
	same, data, ok := again.next()
	require.True(t, ok)
	require.Empty(t, data, "nothing has changed")
	require.Equal(t, told, same)
	again.stop()
	_, err := c.CallTool(t.Context(), "a/add_tool", map[string]any{"name": "fresh"})
	require.NoError(t, err)
	until(t, func() bool { _, listed := c.Tool("a/fresh"); return listed }) // or the change is heard live
	later := p.listen(eventHeader, told)
	later.next()
	newer, data, ok := later.next()
	require.True(t, ok)
	require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`, data)
	require.NotEqual(t, told, newer)

	p.url = stranger
	status, _ = p.post(toolCallOf(3, "a__echo", `{"text":"x"}`))
	require.Equal(t, http.StatusNotFound, status, "another key")
}

// Requests of a version that is not known are refused (MCP, basic, transports, protocol version header), and so are GET
// and DELETE of 2026-07-28, which has neither.
func TestHandler_version_of_streams_and_ends(t *testing.T) {
	_, url := serveHTTP(t, newClient(t))
	p := newPeer(t, url)
	p.initialize("2025-06-18")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		for version, want := range map[string]int{"1999-01-01": http.StatusBadRequest, "x": http.StatusBadRequest, "2026-07-28": http.StatusMethodNotAllowed} {
			require.Equal(t, want, p.do(t.Context(), method, "", versionHeader, version).StatusCode, "%s %s", method, version)
		}
		require.Equal(t, http.StatusBadRequest, newPeer(t, url).do(t.Context(), method, "").StatusCode, "%s without a session", method)
	}
	status, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, versionHeader, "1999-01-01")
	require.Equal(t, http.StatusBadRequest, status, answer)
	require.Equal(t, http.StatusNoContent, p.do(t.Context(), http.MethodDelete, "", versionHeader, "2025-06-18").StatusCode)
}

// Batches are answered in the version that has them, and refused in the others.
func TestHandler_batches(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	batch := "[" + toolCallOf(1, "a__echo", `{"text":"one"}`) + `,{"jsonrpc":"2.0","method":"notifications/initialized"},` + toolCallOf(2, "a__echo", `{"text":"two"}`) + "]"
	p := newPeer(t, url)
	p.initialize("2025-03-26")
	response := p.do(t.Context(), http.MethodPost, batch)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(body), "data: {"))
	status, answer := p.post(batch, "Accept", "application/json")
	require.Equal(t, http.StatusOK, status)
	var answers []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(answer), &answers), answer)
	require.Len(t, answers, 2)
	for _, version := range []string{"2024-11-05", "2025-06-18", "2025-11-25"} {
		p := newPeer(t, url)
		p.initialize(version)
		status, answer := p.post(batch)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, answer, "has no batches")
	}
}

// A batch has many messages, and decoded values are larger than their text. Params are decoded when the bounds of
// the session have admitted their message, and not before.
func TestHandler_batch_is_admitted_before_it_is_decoded(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	one := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"requestId":[` + strings.Repeat(`{"":0},`, 4_900) + `0]}}`
	p := newPeer(t, url)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, answer := p.post("[" + strings.Repeat(one+",", 199) + one + "]")
	runtime.ReadMemStats(&after)
	require.Equal(t, http.StatusBadRequest, status, answer)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(100), "MiB for a body of 7 MiB without a session")
}

// While a server restarts, its tools stay listed byte for byte, no client is told of a change, and
// calls that were not sent wait. When it is given up, its tools leave.
func TestHandler_server_restarts(t *testing.T) {
	ctx := t.Context()
	spec := mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: supervisor.Retry(3, time.Millisecond)}
	serve, again := spec.InMemory.Serve, make(chan struct{})
	var starts atomic.Int32
	spec.InMemory.Serve = func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		if starts.Add(1) > 1 {
			select {
			case <-again:
			case <-ctx.Done():
			}
		}
		return serve(ctx, in, out, log)
	}
	c := newClient(t, spec)
	s, url := serveHTTP(t, c)
	p := newPeer(t, url)
	p.initialize("2025-06-18")
	stream := p.listen()
	list := func() string {
		t.Helper()
		status, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		require.Equal(t, http.StatusOK, status)
		return answer
	}
	before := list()
	down := c.Watch(ctx, mcpvisor.EventDown)
	_, err := c.CallTool(ctx, "a/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	receive(t, down)
	require.Empty(t, c.Tools(), "the client keeps its promise")
	require.Equal(t, before, list())
	go func() { // it starts when the call has come
		defer close(again)
		for end := time.Now().Add(patience); s.Status().InFlight == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}()
	status, answer := p.post(toolCallOf(2, "a__echo", `{"text":"after"}`))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"text":"after"`, "the call has waited")
	require.Equal(t, before, list())
	require.Equal(t, 1, s.Status().Sessions)

	p.post(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"mcptest://text"}}`)
	p.post(toolCallOf(4, "a__touch", `{"uri":"mcptest://text"}`))
	_, data, ok := stream.next()
	require.True(t, ok)
	require.Contains(t, data, "resources/updated", "no change was told before")
	p.post(`{"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"mcptest://text"}}`)
	require.NoError(t, c.Unregister(ctx, "a"))
	for ok, data = true, "resources/updated"; ok && strings.Contains(data, "resources/updated"); { // the restart may be told as one, too
		_, data, ok = stream.next()
	}
	require.True(t, ok)
	require.Contains(t, data, "notifications/tools/list_changed")
	require.NotContains(t, list(), "a__echo")
}

// The tools of a server that is down leave the list at the end of the grace, and when it is parked, though they are kept
// until then. A call does not wait for a server that starts too late.
func TestHandler_tools_leave(t *testing.T) {
	for name, row := range map[string]struct {
		policy supervisor.Policy
		onDown *OnDown
	}{
		"at the end of the grace": {supervisor.Retry(1, time.Hour), pointerTo(OnDown(50 * time.Millisecond))},
		"when it is parked":       {supervisor.Retry(1, time.Millisecond, supervisor.WithParking(time.Hour)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: row.policy})
			_, url := serveHTTP(t, c, WithSettings(settingsOf(Settings{OnDown: row.onDown})))
			p := newPeer(t, url)
			p.initialize("2025-06-18")
			stream := p.listen()
			until(t, func() bool { // the policy is spent
				_, _ = c.CallTool(t.Context(), "a/crash", nil)
				status, _ := c.ServerStatus("a")
				return status.RetryAt != nil && time.Until(*status.RetryAt) > time.Minute
			})
			_, data, ok := stream.next()
			require.True(t, ok)
			require.Contains(t, data, "list_changed")
			_, answer := p.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			require.NotContains(t, answer, "a__echo")
			began := time.Now()
			_, answer = p.post(toolCallOf(2, "a__echo", `{"text":"x"}`))
			require.Contains(t, answer, `"isError":true`)
			require.Less(t, time.Since(began), DefaultMaxWait, "it starts in an hour")
		})
	}
}

// Names and schemas: what a host could not use is withheld, with the reason.
func TestHandler_names(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, fixture("a", mcptest.Script{NoPrompts: true, Tools: []mcptest.ToolDef{{Name: "echo"}, {Name: "odd name!", As: "echo"}, {Name: strings.Repeat("long", 20), As: "echo"}}}),
		fixture("b", mcptest.Script{NoPrompts: true, Tools: []mcptest.ToolDef{{Name: "echo"}, {Name: "only", As: "echo"}}}))
	names := func(prefix Prefix) (names []string, s *Server) {
		s, url := serveHTTP(t, c, WithNames(Names{Prefix: prefix, HostPrefix: "mcp__mcpvisor__"}))
		session := overHTTP(t, url, "2026-07-28", nil)
		for tool, err := range session.Tools(ctx, nil) {
			require.NoError(t, err)
			require.LessOrEqual(t, len("mcp__mcpvisor__"+tool.Name), 64)
			require.Regexp(t, "^[a-zA-Z0-9_-]+$", tool.Name)
			names = append(names, tool.Name)
			r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{"text": "x"}})
			require.Equal(t, "x", text(t, r, err))
		}
		return names, s
	}
	always, s := names(PrefixAlways)
	require.Len(t, always, 5)
	require.Subset(t, always, []string{"a__echo", "b__echo", "b__only"})
	require.Empty(t, s.Status().Withheld)
	conflict, s := names(PrefixOnConflict)
	require.Len(t, conflict, 5)
	require.Subset(t, conflict, []string{"a__echo", "b__echo", "only"})
	require.Empty(t, s.Status().Withheld)
	never, s := names(PrefixNever)
	require.Len(t, never, 3)
	require.NotContains(t, never, "echo")
	withheld := s.Status().Withheld
	require.Len(t, withheld, 2)
	require.Equal(t, `the name "echo" would stand for a/echo and b/echo; rename or hide all but one, or let names begin with their servers`, withheld[0].Reason)
}

// Of a long text a client gets the beginning, and the whole text, byte for byte, by reading
// the link. The structured content is not touched. No other principal can read it.
func TestHandler_shortens_results(t *testing.T) {
	const bound = 50 << 10
	literal := `"` + strings.Repeat(`\u00e4\n ü\ud83d\ude00<é`, 1<<18/24) + `"`
	structured := `{"all": [1.0, 9223372036854775808, "` + strings.Repeat("s", 2*bound) + `"]}`
	result := `{"_meta":{"a":1.0},"content":[{"type":"image","data":"` + strings.Repeat("A", bound) + `","mimeType":"image/png"},{"text":` + literal +
		`,"annotations":{"priority":1.0},"type":"text"},{"type":"text","text":"the end"}],"structuredContent":` + structured + `}`
	client := newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: rawServer(result)})
	alice, bob := NewToken(), NewToken()
	settings := newSettings(t, Settings{MaxResultBytes: bound, Profiles: map[string]Profile{"p": {}}})
	_, url := serveHTTP(t, client, WithHTTPLimits(HTTPLimits{KeepAlive: time.Hour}), WithSettings(settings), WithTokens(
		Token{Principal: "alice", SHA256: HashToken(alice)}, Token{Principal: "bob", SHA256: HashToken(bob)}, Token{Principal: "alice", SHA256: HashToken("alice-at-work"), Profile: "p"}))

	for _, version := range []string{linkVersion, "2025-03-26"} {
		p := newPeer(t, url)
		p.header.Set("Authorization", "Bearer "+alice)
		p.initialize(version)
		_, answer := p.post(toolCallOf(2, "a__x", `{}`))
		short := []byte(memberOf(t, []byte(answer), "result"))
		require.True(t, json.Valid(short))
		require.Less(t, len(short), 3*bound+len(structured))
		require.Equal(t, structured, member(t, short, "structuredContent"))
		require.Equal(t, `{"a":1.0}`, member(t, short, "_meta"))
		var content []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(member(t, short, "content")), &content))
		require.Len(t, content, 4)
		require.Contains(t, string(content[0]), `"type":"image"`)
		head := member(t, content[1], "text")
		require.LessOrEqual(t, len(head)-2, bound)
		require.Greater(t, len(head), bound-20)
		require.True(t, strings.HasPrefix(literal, head[:len(head)-1]), "the beginning")
		require.Equal(t, `{"priority":1.0}`, member(t, content[1], "annotations"))
		var link struct{ Type, Text, URI, Name string }
		require.NoError(t, json.Unmarshal(content[2], &link))
		if version < linkVersion {
			require.Equal(t, "text", link.Type)
			_, link.URI, _ = strings.Cut(link.Text, "Read the resource ")
		} else {
			require.Equal(t, []string{"resource_link", "result of a__x"}, []string{link.Type, link.Name})
		}
		var whole string
		require.NoError(t, json.Unmarshal([]byte(literal), &whole))
		require.Contains(t, string(content[3]), "All 7 bytes", "the bound is for all texts together")

		read := `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"` + link.URI + `"}}`
		_, answer = p.post(read)
		var contents []struct{ URI, MIMEType, Text string }
		require.NoError(t, json.Unmarshal([]byte(memberOf(t, []byte(answer), "result", "contents")), &contents))
		require.Len(t, contents, 1)
		require.Equal(t, link.URI, contents[0].URI)
		if whole != contents[0].Text { // require.Equal would print both
			t.Error("it is not the whole text")
		}
		require.Contains(t, answer, literal)

		p.session = ""
		_, answer = p.post(modernRequest("resources/read", `"uri":"`+link.URI+`"`), versionHeader, modernVersion, methodHeader, "resources/read", nameHeader, link.URI)
		require.Equal(t, `"complete"`, memberOf(t, []byte(answer), "result", "resultType"))
		for _, other := range []string{bob, "alice-at-work"} {
			p.header.Set("Authorization", "Bearer "+other)
			p.initialize(version)
			_, answer = p.post(read)
			require.Equal(t, "-32002", memberOf(t, []byte(answer), "error", "code"), answer)
			_, unknown := p.post(strings.ReplaceAll(read, link.URI, longresult.Scheme+"NOSUCHRESULT"))
			require.Equal(t, strings.ReplaceAll(unknown, longresult.Scheme+"NOSUCHRESULT", link.URI), answer, "as if there were none")
		}
	}
}

func modernRequest(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
}

// A server of that name keeps its own resources.
func TestReadResult_of_a_server_named_result(t *testing.T) {
	c := newClient(t, fixture("result", mcptest.Script{}))
	s := openRaw(t, Transport(c, WithSettings(newSettings(t, Settings{MaxResultBytes: 10}))))
	answer := s.call("resources/read", `{"uri":"mcpvisor://result/mcptest://text"}`)
	require.NoError(t, answer.Error)
	require.Contains(t, string(answer.Result), "Hello from mcptest.")
}
