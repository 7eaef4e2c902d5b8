package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	rawtest "github.com/mcpvisor/mcpvisor/test/raw"
)

// asker is a server in memory whose incarnations ask when the test says so. The tool x answers with the number of
// its incarnation, from 1, or never, if it is asked to hang.
type asker struct {
	mu       sync.Mutex
	ask      []chan string // by incarnation: the id of a question
	answers  chan string   // what is answered, after the number of the incarnation
	declared chan string   // what is declared to each incarnation, if it has room
	hanging  chan struct{} // gets an element for each call that hangs
	changed  chan int      // the number of an incarnation that was told that the roots have changed
}

func newAsker() *asker {
	return &asker{answers: make(chan string, 100), declared: make(chan string, 100), hanging: make(chan struct{}, 100), changed: make(chan int, 100)}
}

func (a *asker) spec() mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: &mcpvisor.InMemory{Serve: a.serve}}
}

// trigger lets an incarnation ask.
func (a *asker) trigger(n int, id string) {
	a.mu.Lock()
	ask := a.ask[n-1]
	a.mu.Unlock()
	ask <- id
}

func (a *asker) serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
	ask := make(chan string, 10)
	a.mu.Lock()
	a.ask = append(a.ask, ask)
	n := len(a.ask)
	a.mu.Unlock()
	ended := make(chan struct{})
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(ended)
	return rawServerOf(func(m *rawtest.Message) string {
		switch m.Method {
		case "notifications/roots/list_changed":
			a.changed <- n
		case "":
			a.answers <- fmt.Sprintf("%d %s %s%s", n, m.ID, m.Result, m.Error)
		case "initialize":
			a.declared <- string(m.Params)
			asking.Go(func() {
				for {
					select {
					case id := <-ask:
						m.Send(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":{"message":"of %d","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`, id, n)
					case <-ended:
						return
					}
				}
			})
		case "tools/call":
			if strings.Contains(string(m.Params), "hang") {
				a.hanging <- struct{}{}
				return rawtest.None
			}
			return rawtest.Text(strconv.Itoa(n))
		}
		return ""
	}, nil).Serve(ctx, in, out, log)
}

// incarnationOf calls x.
func incarnationOf(t *testing.T, u user) int {
	t.Helper()
	result, failure := u("tools/call", `{"name":"a__x"}`)
	require.Empty(t, failure)
	var r mcp.CallToolResult
	require.NoError(t, json.Unmarshal([]byte(result), &r))
	n, err := strconv.Atoi(textOf(&r))
	require.NoError(t, err)
	return n
}

// A copy may ask while no call is in flight: its client is asked, over stdio and on the stream of a session, and
// no other one. Without a stream no client is asked, and the server learns why.
func TestShare_questions_without_a_call(t *testing.T) {
	a := newAsker()
	c := newAskingClient(t, nil, a.spec())
	require.Contains(t, receive(t, a.declared), `"sampling"`)
	transport := Transport(c, WithNames(Names{}), withShare(ShareClient))
	server, url := serveHTTP(t, c, withShare(ShareClient))

	open := func() (raw, int) {
		s := askingSessionOf(t, transport)
		n := incarnationOf(t, s.user(false))
		declared := receive(t, a.declared)
		require.Contains(t, declared, `"elicitation"`)
		require.NotContains(t, declared, `"sampling"`, "what the client does not answer")
		return s, n
	}
	ann, first := open()
	bob, second := open()
	require.NotEqual(t, first, second)
	a.trigger(second, "q")
	asked, ok := bob.read().(*jsonrpc.Request)
	require.True(t, ok)
	require.Contains(t, string(asked.Params), fmt.Sprintf("of %d", second))
	require.NoError(t, bob.conn.Write(t.Context(), &jsonrpc.Response{ID: asked.ID, Result: json.RawMessage(`{"action":"accept","content":{"name":"bob"}}`)}))
	require.Equal(t, fmt.Sprintf(`%d "q" {"action":"accept","content":{"name":"bob"}}`, second), receive(t, a.answers))
	require.Equal(t, first, incarnationOf(t, ann.user(false)), "the next message is the answer: ann was not asked")

	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"elicitation":{}}`)
	third := incarnationOf(t, p.user(false))
	a.trigger(third, "r")
	require.Contains(t, receive(t, a.answers), "it reads no stream")
	stream := p.listen()
	_, _, ok = stream.next()
	require.True(t, ok)
	a.trigger(third, "s")
	_, data, ok := stream.next()
	require.True(t, ok)
	require.Contains(t, data, fmt.Sprintf("of %d", third))
	status, _ := p.post(`{"jsonrpc":"2.0","id":` + memberOf(t, []byte(data), "id") + `,"result":{"action":"decline"}}`)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, fmt.Sprintf(`%d "s" {"action":"decline"}`, third), receive(t, a.answers))
	server.mu.Lock()
	for _, hs := range server.sessions {
		hs.session.questions.mu.Lock()
		hs.session.questions.comeBack = time.Millisecond
		hs.session.questions.mu.Unlock()
	}
	server.mu.Unlock()
	a.trigger(third, "t") // the client goes before it answers
	_, data, _ = stream.next()
	require.Contains(t, data, "elicitation/create")
	stream.stop()
	require.Contains(t, receive(t, a.answers), `"t" {"code"`)

	a.trigger(1, "u") // the one of the lists
	require.Contains(t, receive(t, a.answers), `1 "u" {"code"`)
	p.do(t.Context(), http.MethodDelete, "")
}

// A stream that is open when a server gets copies carries what they ask, though nothing else happens on it.
func TestShare_questions_on_an_idle_stream_after_a_reload(t *testing.T) {
	a := newAsker()
	c := newAskingClient(t, nil, a.spec())
	var settings SettingsVar
	server, url := serveHTTP(t, c, WithSettings(&settings), WithHTTPLimits(HTTPLimits{KeepAlive: time.Hour})) // it wakes the stream, too
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"elicitation":{}}`)
	stream := p.listen()
	_, _, ok := stream.next()
	require.True(t, ok)
	said, err := sessionid.Open(server.gateway.opts.key, p.session, "", time.Now())
	require.NoError(t, err)
	server.mu.Lock()
	own := server.sessions[said.Nonce]
	server.mu.Unlock()
	require.NoError(t, settings.Set(Settings{ShareOf: map[string]Share{"a": ShareClient}}))
	until(t, func() bool {
		own.session.questions.mu.Lock()
		defer own.session.questions.mu.Unlock()
		return own.session.questions.stream != nil
	})
	n := incarnationOf(t, p.user(false))
	a.trigger(n, "q")
	_, data, ok := stream.next()
	require.True(t, ok)
	require.Contains(t, data, fmt.Sprintf("of %d", n))
	stream.stop()
	p.do(t.Context(), http.MethodDelete, "")
}

// A question that was written to a stream which broke, or which another one has replaced, is asked again on the next
// stream of the session, with the same id, unless the client says that it has seen it. Its answer counts once.
func TestShare_questions_on_a_broken_stream(t *testing.T) {
	a := newAsker()
	c := newAskingClient(t, nil, a.spec())
	server, url := serveHTTP(t, c, withShare(ShareClient))
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"elicitation":{}}`)
	n := incarnationOf(t, p.user(false))
	stream := p.listen()
	resume, _, ok := stream.next()
	require.True(t, ok)
	ask := func(id string) (event, question string) {
		a.trigger(n, id)
		event, data, ok := stream.next()
		require.True(t, ok)
		require.Contains(t, data, "elicitation/create")
		return event, data
	}
	answer := func(question, id string) {
		for range 2 { // the second one belongs to no question
			status, _ := p.post(`{"jsonrpc":"2.0","id":` + memberOf(t, []byte(question), "id") + `,"result":{"action":"decline"}}`)
			require.Equal(t, http.StatusAccepted, status)
		}
		require.Equal(t, fmt.Sprintf(`%d %q {"action":"decline"}`, n, id), receive(t, a.answers))
	}
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("broken %v", broken), func(t *testing.T) {
			again := func(seen string) events {
				if broken {
					stream.stop()
					until(t, func() bool {
						server.mu.Lock()
						defer server.mu.Unlock()
						for _, hs := range server.sessions {
							hs.session.questions.mu.Lock()
							defer hs.session.questions.mu.Unlock()
							return hs.session.questions.broken != nil
						}
						return false
					})
				}
				next := p.listen(eventHeader, seen)
				first, _, ok := next.next()
				require.True(t, ok)
				require.Equal(t, seen, first, "the stream begins with what the client has seen")
				return next
			}
			_, question := ask("lost")
			stream = again(resume)
			event, repeated, ok := stream.next()
			require.True(t, ok)
			require.Equal(t, question, repeated)
			answer(repeated, "lost")

			seen, question := ask("seen")
			require.NotEqual(t, event, seen)
			stream = again(seen)
			start, later := ask("next")
			answer(question, "seen")
			stream = again(start)
			a.trigger(n, "mark")
			start, question, ok = stream.next()
			require.True(t, ok)
			answer(question, "mark")
			answer(later, "next")

			for _, place := range []int64{1, 1 << 52} { // of another process, whose places began elsewhere
				_, question = ask("foreign")
				known, _, _ := parseEventID(start)
				stream = again(eventID(known, place))
				a.trigger(n, "later")
				_, repeated, ok = stream.next()
				require.True(t, ok)
				require.Equal(t, question, repeated, "the client has not seen it")
				answer(repeated, "foreign")
				start, later, ok = stream.next()
				require.True(t, ok)
				answer(later, "later")
			}
			resume = start
		})
	}
	p.do(t.Context(), http.MethodDelete, "")
}

// What was asked on the stream of a call whose connection broke is asked again on that of another call.
func TestQuestions_on_the_broken_stream_of_a_call(t *testing.T) {
	a := newAsker()
	c := newAskingClient(t, nil, a.spec())
	_, url := serveHTTP(t, c)
	p := newPeer(t, url)
	p.initializeWith("2025-11-25", `{"elicitation":{}}`)
	call := func(id int) (stream chan events, leave context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		stream = make(chan events, 1)
		go func() {
			if body, err := p.stream(ctx, toolCallOf(id, "a__x", `{"hang":true}`)); err == nil { // it begins with the first question
				context.AfterFunc(t.Context(), func() { _ = body.Close() })
				stream <- events{t, bufio.NewReader(body), cancel}
			}
		}()
		receive(t, a.hanging)
		return stream, cancel
	}
	older, _ := call(1)
	newer, leave := call(2)
	a.trigger(1, "q")
	_, question, ok := receive(t, newer).next()
	require.True(t, ok)
	leave()
	_, again, ok := receive(t, older).next()
	require.True(t, ok)
	require.Equal(t, question, again)
	status, _ := p.post(`{"jsonrpc":"2.0","id":` + memberOf(t, []byte(question), "id") + `,"result":{"action":"decline"}}`)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, `1 "q" {"action":"decline"}`, receive(t, a.answers))
}

// A server may ask before its copy is ready: the client whose call waits for the copy is asked.
func TestShare_question_while_a_copy_starts(t *testing.T) {
	var list *rawtest.Message // is answered when the question is
	server := serveRaw(func(m *rawtest.Message) string {
		switch m.Method {
		case "tools/list":
			list = m
			m.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%s}`, wantsText)
			return rawtest.None
		case "":
			list.Reply(`"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			return rawtest.Text("done")
		}
		return ""
	}, nil)
	c := newAskingClient(t, nil, mcpvisor.ServerSpec{Name: "a", Era: mcpvisor.EraLegacy, InMemory: server})
	ann := askingSessionOf(t, Transport(c, withShare(ShareClient)))
	ann.send(1, "tools/call", `{"name":"a/x"}`)
	asked, ok := ann.read().(*jsonrpc.Request)
	require.True(t, ok, "the call has not begun")
	require.NoError(t, ann.conn.Write(t.Context(), &jsonrpc.Response{ID: asked.ID, Result: json.RawMessage(`{"action":"decline"}`)}))
	answer, ok := ann.read().(*jsonrpc.Response)
	require.True(t, ok)
	require.NoError(t, answer.Error)
	require.Contains(t, string(answer.Result), "done")
}
