package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/mcptest"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// callsForever is a server whose calls end when they are canceled, and what it has read: names of methods.
func callsForever(t *testing.T) (client *facade.Client, read chan string) {
	t.Helper()
	read = make(chan string, 100)
	return newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: serveRaw(func(m *rawtest.Message) string {
		switch m.Method {
		case "tools/call":
			read <- m.Method
			return rawtest.None
		case "notifications/cancelled":
			read <- m.Method
		}
		return ""
	}, nil)}), read
}

// A request of 2026-07-28 in a batch of a session is refused: it would run without the checks of its version.
func TestHandler_modern_request_in_a_batch(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("library", librarian())))
	p := newPeer(t, url)
	p.initialize("2025-03-26")
	for _, batch := range []string{
		modernRequest("resources/read", `"uri":"lib://open/a"`),
		modernRequest("tools/call", `"name":"library__x"`),
		`{"jsonrpc":"2.0","id":7,"method":"ping"},` + modernRequest("resources/read", `"uri":"lib://open/a"`),
	} {
		status, answer := p.post("[" + batch + "]")
		require.Equal(t, http.StatusBadRequest, status, answer)
		require.Contains(t, answer, `-32600`)
		require.Contains(t, answer, "version 2026-07-28 has no sessions and no batches")
	}
}

// Sessions of a principal hold calls together, should one ever hold a call: each does not count for itself.
func TestHandler_hold_owner_of_a_session(t *testing.T) {
	s, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	p.listen() // keeps the session
	until(t, func() bool { return s.Status().Streams == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hs := range s.sessions {
		require.Equal(t, roundtrip.Owner{Principal: hs.principal.name}, hs.session.holdOwner)
		require.Equal(t, hs.principal.name, hs.session.elicitedSession().Principal)
	}
}

// What stands between client and server decides by the header Mcp-Name: the request is about what it says, or refused.
func TestHandler_name_header_is_what_is_read(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("library", librarian())))
	p := newPeer(t, url)
	for method, members := range map[string][]string{
		"resources/read": {`"uri":"NAME","URI":"OTHER"`, `"uri":"NAME","Uri":"OTHER"`, `"uri":"OTHER","uri":"NAME"`, `"uri":"NAME","\u0075ri":"OTHER"`},
		"prompts/get":    {`"name":"NAME","Name":"OTHER"`, `"name":"OTHER","name":"NAME"`},
		"tasks/get":      {`"taskId":"NAME","TASKID":"OTHER"`, `"taskId":"NAME","tas\u212aId":"OTHER"`, `"taskId":"OTHER","taskId":"NAME"`},
		"tools/call":     {`"name":"OTHER","name":"NAME"`, `"name":"NAME","arguments":{},"arguments":{}`},
	} {
		for _, member := range members {
			params := strings.NewReplacer("NAME", "lib://open/a", "OTHER", "lib://closed/b").Replace(member)
			name := "lib://open/a"
			status, answer := p.post(modernRequest(method, params), versionHeader, modernVersion, methodHeader, method, nameHeader, name)
			require.Regexp(t, `-32602.*(is there twice|must be written)|-32020`, answer, "%d %s %s", status, method, member)
		}
	}
}

// Nothing of a batch takes effect that is refused because its requests are too many.
func TestHandler_refused_batch_has_no_effect(t *testing.T) {
	c, read := callsForever(t)
	_, url := serveHTTP(t, c, WithHTTPLimits(HTTPLimits{MaxInFlight: 2}))
	p := newPeer(t, url)
	p.initialize("2025-03-26")
	var sent sync.WaitGroup
	sent.Go(func() { p.post(toolCallOf(5, "a__x", "{}")) })
	require.Equal(t, "tools/call", receive(t, read))
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`
	status, answer := p.post(`[` + cancel + `,` + toolCallOf(6, "a__x", "{}") + `,` + toolCallOf(7, "a__x", "{}") + `]`)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Contains(t, answer, "Nothing was done")
	status, _ = p.post(`[` + cancel + `,{"jsonrpc":"2.0","id":8,"method":"initialize"}]`)
	require.Equal(t, http.StatusBadRequest, status)
	sent.Go(func() { p.post(toolCallOf(9, "a__x", "{}")) })
	require.Equal(t, "tools/call", receive(t, read), "no cancellation before it")
	require.Equal(t, http.StatusNoContent, p.do(t.Context(), http.MethodDelete, "").StatusCode)
	sent.Wait()
}

// A session before 2026-07-28 has no subscriptions/listen, whose stream would outlive the token.
func TestHandler_listen_in_a_session(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	_, answer := p.post(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`)
	require.Contains(t, answer, `-32601`)
}

// A tasks/result that waits ends when the token of its client expires: the client asks again with a new one.
func TestHandler_task_result_ends_with_the_token(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, jobServer("2025-11-25", mcptest.TaskDef{Takes: time.Hour})), WithTokenVerifier(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		life := map[string]time.Duration{"long": time.Hour, "short": 200 * time.Millisecond}[token]
		return &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(life)}, nil
	}, nil), WithHTTPLimits(HTTPLimits{KeepAlive: 50 * time.Millisecond}))
	p := follower(t, url, false, "Authorization", "Bearer long")
	params := about(p.begin("x"))
	for accept, want := range map[string]int{"text/event-stream": http.StatusOK, "application/json": http.StatusUnauthorized} {
		p.header.Set("Authorization", "Bearer short")
		id := fmt.Sprintf(`"id":%d`, want) // the request with the former one may be ending
		status, answer := p.post(`{"jsonrpc":"2.0",`+id+`,"method":"tasks/result","params":`+params+`}`, "Accept", accept)
		require.Equal(t, want, status, answer)
		require.NotContains(t, answer, id)
	}
}

// The end of a session says of each request in flight what became of it: a status such as 503 would say that
// it may be repeated.
func TestHandler_requests_in_flight_at_the_end(t *testing.T) {
	for name, end := range map[string]func(p *peer, s *Server){
		"close":  func(_ *peer, s *Server) { s.Close() },
		"delete": func(p *peer, _ *Server) { p.do(p.t.Context(), http.MethodDelete, "") },
	} {
		for _, version := range []string{"2025-03-26", "2025-11-25", modernVersion} {
			if version == modernVersion && name == "delete" {
				continue // it has no sessions
			}
			t.Run(name+"/"+version, func(t *testing.T) {
				c, read := callsForever(t)
				s, url := serveHTTP(t, c)
				p := newPeer(t, url)
				body, header := toolCallOf(5, "a__x", "{}"), []string(nil)
				switch version {
				case modernVersion:
					body = modernRequest("tools/call", `"name":"a__x"`)
					header = []string{versionHeader, modernVersion, methodHeader, "tools/call", nameHeader, "a__x"}
				case "2025-03-26":
					p.initialize(version)
					body = `[` + body + `,` + toolCallOf(6, "a__x", "{}") + `]`
					header = []string{"Accept", "application/json"}
				default:
					p.initialize(version)
				}
				type answer struct {
					status int
					text   string
				}
				answered := make(chan answer, 1)
				go func() {
					r := p.do(t.Context(), http.MethodPost, body, header...)
					text, _ := io.ReadAll(r.Body)
					answered <- answer{r.StatusCode, string(text)}
				}()
				calls := strings.Count(body, "tools/call")
				for range calls {
					require.Equal(t, "tools/call", receive(t, read))
				}
				end(p, s)
				a := receive(t, answered)
				require.Equal(t, http.StatusOK, a.status, a.text)
				require.Equal(t, calls, strings.Count(a.text, `"isError":true`), a.text)
				require.Contains(t, a.text, "Whether it had an effect is not known; check before you repeat it.")
				require.Equal(t, version == modernVersion, strings.Contains(a.text, `"resultType":"complete"`), a.text)
			})
		}
	}
}

// What a request gets whose session has ended before its answer.
func TestConnection_giveUp(t *testing.T) {
	s := openRaw(t, Transport(newClient(t)))
	c := s.conn.(*connection)
	for method, admitted := range map[string]map[bool]string{
		"tools/call":   {true: `"isError":true.*Whether it had an effect is not known|Whether it had an effect is not known.*"isError":true`, false: `nothing was done`},
		"prompts/get":  {true: `"outcome":"unknown"`, false: `"outcome":"not_sent"`},
		"tasks/result": {true: `may have been executed`, false: `nothing was done`},
	} {
		for was, want := range admitted {
			r := newRequest(c.exchange, numbered(method, `{"name":"a__x"}`)(1), &params{name: "a__x"})
			answer := r.giveUp(was)
			text, err := json.Marshal(answer.Error)
			require.NoError(t, err)
			require.Regexp(t, want, string(answer.Result)+string(text))
		}
	}
}

// hookedWriter calls a function after each flush, with what was written until then.
type hookedWriter struct {
	http.ResponseWriter
	written *strings.Builder
	flushed func(written string)
}

func (w hookedWriter) Write(b []byte) (int, error) {
	w.written.Write(b)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w hookedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w hookedWriter) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.flushed(w.written.String())
	return err
}

// TestHandler_id_is_free_when_the_answer_is_read: a client may use the id of a request again as soon as
// it has read the answer.
func TestHandler_id_is_free_when_the_answer_is_read(t *testing.T) {
	s := Handler(newClient(t, fixture("a", mcptest.Script{})))
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a__slow_progress","arguments":{"steps":2,"ms":1},"_meta":{"progressToken":1}}}`
	var p *peer
	var hooked atomic.Bool // the first POST of the call
	second := ""
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Test") != "" && hooked.CompareAndSwap(false, true) {
			w = hookedWriter{w, new(strings.Builder), func(written string) {
				if second == "" && strings.Contains(written, `"result"`) {
					_, second = p.post(call)
				}
			}}
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	p = newPeer(t, web.URL)
	p.initialize("2025-11-25")
	_, answer := p.post(call, "Test", "1")
	require.Contains(t, answer, `"result"`)
	require.Contains(t, second, `"result"`)
}

const pingRequest = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// What may ask. Foreign names, pages and tokens are rows of TestHostileHTTP (access/…).
func TestHandler_access(t *testing.T) {
	c := newClient(t)
	_, url := serveHTTP(t, c, WithOrigins("http://inspector.example:6274"))
	_, open := serveHTTP(t, c, WithTokens(Token{Principal: "p", SHA256: HashToken("secret")}))
	host := strings.TrimPrefix(url, "http://")
	for what, try := range map[string]struct {
		url    string
		header []string
		want   int
	}{
		"plain":                     {url, nil, 400}, // no session
		"localhost":                 {url, []string{"Host", "localhost:80"}, 400},
		"own origin":                {url, []string{"Origin", "http://" + host}, 400},
		"allowed origin":            {url, []string{"Origin", "http://inspector.example:6274"}, 400},
		"through a proxy":           {url, []string{"X-Forwarded-For", "10.0.0.1"}, 403},
		"token":                     {open, []string{"Authorization", "Bearer secret"}, 400},
		"token and another name":    {open, []string{"Authorization", "Bearer secret", "Host", "mcp.example.com"}, 400},
		"token and a foreign page":  {open, []string{"Authorization", "Bearer secret", "Origin", "http://evil.example"}, 403},
		"token through a proxy":     {open, []string{"Authorization", "Bearer secret", "X-Forwarded-For", "10.0.0.1"}, 400},
		"wrong content type":        {url, []string{"Content-Type", "text/plain"}, 415},
		"form":                      {url, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"json with a charset":       {url, []string{"Content-Type", "application/json; charset=utf-8"}, 400},
		"a session that is no more": {url, []string{sessionHeader, "1234"}, 404},
	} {
		status, answer := newPeer(t, try.url).post(pingRequest, try.header...)
		require.Equal(t, try.want, status, "%s: %s", what, answer)
	}
	require.Equal(t, http.StatusMethodNotAllowed, newPeer(t, url).do(t.Context(), http.MethodPut, "").StatusCode)
	preflight := newPeer(t, url).do(t.Context(), http.MethodOptions, "", "Origin", "http://inspector.example:6274")
	require.Equal(t, http.StatusNoContent, preflight.StatusCode)
	require.Contains(t, preflight.Header.Get("Access-Control-Allow-Headers"), sessionHeader)
	require.Equal(t, http.StatusForbidden, newPeer(t, url).do(t.Context(), http.MethodOptions, "", "Origin", "http://evil.example").StatusCode)

	away := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader(pingRequest))
	recorder := httptest.NewRecorder()
	Handler(c).ServeHTTP(recorder, away) // it came in on no loopback address that is known
	require.Equal(t, http.StatusForbidden, recorder.Code)
}

// A page that is allowed may send the headers of all versions, and those for the arguments of a tool; no others. A list
// that is longer than one call needs is not repeated.
func TestHandler_preflight(t *testing.T) {
	_, url := serveHTTP(t, newClient(t), WithOrigins("http://inspector.example:6274"))
	allowed := func(asked string) []string {
		t.Helper()
		response := newPeer(t, url).do(t.Context(), http.MethodOptions, "", "Origin", "http://inspector.example:6274", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asked)
		require.Equal(t, http.StatusNoContent, response.StatusCode)
		return strings.Split(strings.ToLower(response.Header.Get("Access-Control-Allow-Headers")), ", ")
	}
	always := []string{"accept", "authorization", "content-type", "last-event-id", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"}
	require.ElementsMatch(t, always, allowed(""))
	require.ElementsMatch(t, append([]string{"mcp-param-region", "mcp-param-depth"}, always...),
		allowed("cookie,mcp-method,mcp-param-region, Mcp-Param-Depth,mcp-param-,mcp-param-a b,x-forwarded-for,*,mcp-param-"+strings.Repeat("x", 129)))
	many := always
	for i := range 64 {
		many = append(many, fmt.Sprintf("mcp-param-%02d%s", i, strings.Repeat("x", 126)))
	}
	require.Subset(t, allowed(strings.Join(many, ", ")), many)
	require.ElementsMatch(t, always, allowed(strings.Repeat("mcp-param-x,", 1000)))
}

// newPeer2 is a peer of the same session, for another goroutine.
func newPeer2(p *peer) *peer {
	other := *p
	return &other
}

// Sessions without a stream cost nothing, however many there are.
func TestHandler_idle_sessions(t *testing.T) {
	s, _ := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	do := func(body, session string) *httptest.ResponseRecorder {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(sessionHeader, session)
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, r)
		require.Equal(t, http.StatusOK, recorder.Code)
		return recorder
	}
	open := func() {
		id := do(initializeRequest("2025-11-25"), "").Header().Get(sessionHeader)
		do(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, id)
	}
	for range 2_500 { // what is kept of clients for operators has a bound (package clients), which is reached here
		open()
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sessions := sized(10_000, 5_000)
	for range sessions {
		open()
	}
	until(t, func() bool {
		runtime.GC()
		runtime.ReadMemStats(&after)
		return int64(after.HeapAlloc)-int64(before.HeapAlloc) < int64(sessions)*50
	})
	require.Zero(t, s.Status().Sessions)
	t.Logf("%d bytes a session", (int64(after.HeapAlloc)-int64(before.HeapAlloc))/int64(sessions))
}

// Frames that are malformed get an error, and cost nothing that stays.
func TestHandler_malformed(t *testing.T) {
	s, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})))
	p := newPeer(t, url)
	p.initialize("2025-03-26")
	for _, body := range []string{"", " ", "null", "1", `"x"`, "{}", "[]", "[[]]", "[1]", "{", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":7}`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, "[" + strings.Repeat(pingRequest+",", message.MaxBatch) + pingRequest + "]", "\xff\xfe"} {
		status, answer := p.post(body)
		require.Equal(t, http.StatusBadRequest, status, "%.100q: %s", body, answer)
		require.Contains(t, answer, `"error"`)
	}
	status, answer := p.post("[" + pingRequest + "," + pingRequest + "]")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `"result":{}`)
	status, _ = p.post(pingRequest)
	require.Equal(t, http.StatusOK, status)
	until(t, func() bool { return s.Status().InFlight == 0 })
}
