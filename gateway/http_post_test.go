package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// callsForever is a server whose calls end when they are canceled, and what it has read: names of methods.
func callsForever(t *testing.T) (client *facade.Client, read chan string) {
	t.Helper()
	read = make(chan string, 100)
	return newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: serveRaw(func(m rawMessage, _ func(string, ...any)) (string, error) {
		switch m.Method {
		case "tools/call":
			read <- m.Method
			return noAnswer, nil
		case "notifications/cancelled":
			read <- m.Method
		}
		return "", nil
	})}), read
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

// The name _META in a session makes no request of 2026-07-28: it would run without the headers of its version.
func TestHandler_meta_in_other_case(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("library", librarian())))
	p := newPeer(t, url)
	p.initialize("2025-11-25")
	status, answer := p.post(strings.Replace(modernRequest("resources/read", `"uri":"lib://open/a"`), `"_meta"`, `"_META"`, 1))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, answer, `-32602`)
	require.Contains(t, answer, `must be written \"_meta\"`)
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
		require.Equal(t, roundtrip.Owner{Principal: hs.principal.name}, hs.holdOwner)
		require.Equal(t, hs.principal.name, hs.elicitedSession().Principal)
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
		life := map[string]time.Duration{"long": time.Hour, "short": 2 * time.Second}[token]
		return &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(life)}, nil
	}, nil), WithHTTPLimits(HTTPLimits{KeepAlive: 50 * time.Millisecond}))
	p := follower(t, url, false, "Authorization", "Bearer long")
	body := `{"jsonrpc":"2.0","id":77,"method":"tasks/result","params":` + about(p.begin("x")) + `}`
	for accept, want := range map[string]int{"text/event-stream": http.StatusOK, "application/json": http.StatusUnauthorized} {
		p.header.Set("Authorization", "Bearer short")
		status, answer := p.post(body, "Accept", accept)
		require.Equal(t, want, status, answer)
		require.NotContains(t, answer, `"id":77`)
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
			r := newRequest(t.Context(), numbered(method, `{"name":"a__x"}`)(1), nil)
			answer := c.giveUp(r, was)
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
