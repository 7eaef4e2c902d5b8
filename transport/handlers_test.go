package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// filling answers forms with an accepting result after f.
func filling(f func(ctx context.Context)) func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(ctx context.Context, _ string, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		f(ctx)
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
}

var (
	atOnce    = filling(func(context.Context) {})
	anySample = func(context.Context, string, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return &mcp.CreateMessageWithToolsResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
	}
)

func TestWhatIsDeclaredIsWhatIsServed(t *testing.T) {
	for name, tc := range map[string]struct {
		handlers       Handlers
		legacy, modern string
	}{
		"nothing":        {Handlers{}, `{}`, `{}`},
		"sample":         {Handlers{Sample: anySample}, `{"sampling":{}}`, `{"sampling":{}}`},
		"tools":          {Handlers{Sample: anySample, SampleTools: true}, `{"sampling":{"tools":{}}}`, `{"sampling":{"tools":{}}}`},
		"no tools alone": {Handlers{SampleTools: true}, `{}`, `{}`},
		"form":           {Handlers{ElicitForm: atOnce}, `{"elicitation":{"form":{}}}`, `{"elicitation":{"form":{}}}`},
		"url":            {Handlers{ElicitURL: atOnce}, `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		"both":           {Handlers{ElicitForm: atOnce, ElicitURL: atOnce}, `{"elicitation":{"form":{},"url":{}}}`, `{"elicitation":{"form":{},"url":{}}}`},
		"roots":          {Handlers{Roots: NewRoots(nil)}, `{"roots":{"listChanged":true}}`, `{"roots":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPartner(t, false)
			p.open(tc.handlers)
			require.Equal(t, "server/discover", (<-p.hello).Method)
			require.JSONEq(t, tc.legacy, string((<-p.hello).Params["capabilities"]))

			p = newPartner(t, true)
			s := p.open(tc.handlers)
			go func() { _, _ = s.Request(t.Context(), toolCall) }()
			var meta map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(p.next("tools/call").Params["_meta"], &meta))
			require.JSONEq(t, tc.modern, string(meta[mcp.MetaKeyClientCapabilities]))
		})
	}
}

// What the go-sdk takes for granted, and what handlers do.
func TestBadQuestionsCostThemselves(t *testing.T) {
	p := newPartner(t, false)
	s := p.open(Handlers{Sample: anySample, SampleTools: true, ElicitForm: atOnce, ElicitURL: atOnce})
	for _, question := range []string{
		`"method":"elicitation/create"`,
		`"method":"elicitation/create","params":null`,
		`"method":"elicitation/create","params":{"mode":"telepathy"}`,
		`"method":"elicitation/create","params":{"mode":"url"}`,
		`"method":"elicitation/create","params":{"mode":"url","url":"file:///etc/passwd"}`,
		`"method":"elicitation/create","params":{"requestedSchema":[]}`,
		`"method":"elicitation/create","params":{"requestedSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}}`,
		`"method":"sampling/createMessage"`,
		`"method":"sampling/createMessage","params":{"messages":[null]}`,
		`"method":"sampling/createMessage","params":{"messages":[{"role":"user"}]}`,
		`"method":"sampling/createMessage","params":{"messages":[],"tools":[null]}`,
		`"method":"roots/list"`,
	} {
		p.say(`{"jsonrpc":"2.0","id":"q",%s}`, question)
		m := p.next("")
		require.JSONEq(t, `"q"`, string(m.ID))
		require.NotEmpty(t, m.Error, question)
		require.Contains(t, string(m.Error), `"code":-32`, question)
	}
	p.say(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
	require.JSONEq(t, `{"role":"assistant","model":"","content":{"type":"text","text":"hi"}}`, string(p.next("").Result))
	require.Nil(t, s.Cause())
}

const question = `{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"?"}}`

func TestAQuestionThatIsTakenBack(t *testing.T) {
	p := newPartner(t, false)
	began, ended := make(chan struct{}), make(chan struct{})
	p.open(Handlers{ElicitForm: filling(func(ctx context.Context) {
		close(began)
		<-ctx.Done()
		close(ended)
	})})
	p.say(question, 1)
	<-began
	p.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	requireClosed(t, ended, "the handler is not told")
}

// A handler that minds nothing holds up neither the session's end nor the
// next session; but it counts as long as it runs.
func TestHandlersThatAreLeftBehind(t *testing.T) {
	p := newPartner(t, false)
	leave := make(chan struct{})
	causes := make(chan error, maxHandlers)
	began := make(chan struct{}, maxHandlers)
	d := p.dialer(Handlers{ElicitForm: filling(func(ctx context.Context) {
		began <- struct{}{}
		<-leave
		<-ctx.Done()
		causes <- context.Cause(ctx)
	})}).(*pipedDialer)
	s := d.NewSession()
	require.NoError(t, s.Open(t.Context()))
	for id := range maxHandlers {
		p.say(question, id+1)
		<-began
	}
	p.say(question, maxHandlers+1) // waits
	killed := &supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"}
	s.Abort(killed)
	requireClosed(t, s.Released(), "handlers hold up the release")

	next := newPartner(t, false)
	d.spawn = next.dialer(Handlers{}).(*pipedDialer).spawn
	s = d.NewSession()
	releaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	next.say(question, 1)
	require.Eventually(t, func() bool { return d.asked.waiting.Load() == 1 }, patience, timeStep)
	close(leave)
	for range maxHandlers {
		require.ErrorIs(t, <-causes, killed)
	}
	<-began
	endSession(t, s)
	require.Error(t, <-causes)
	require.Eventually(t, func() bool { return len(d.asked.slots) == 0 }, patience, timeStep)
}

// More questions than handlers may run wait for their turn; but not all that a
// server can think of.
func TestQuestionsThatWait(t *testing.T) {
	q := NewHandlerPool("s", Options{Handlers: Handlers{ElicitForm: atOnce}, Logger: zerolog.Nop()})
	a := q.NewHandler(NewLifetime())
	for range maxHandlers {
		q.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, maxWaiting)
	wait := func(ctx context.Context) {
		_, err := runHandler(ctx, a, methodElicit, func(context.Context) (*int, error) { return new(int), nil })
		ended <- err
	}
	for range maxWaiting {
		go wait(ctx)
	}
	require.Eventually(t, func() bool { return q.waiting.Load() == maxWaiting }, patience, timeStep)
	wait(t.Context())
	require.ErrorIs(t, <-ended, ErrTooMany)
	<-q.slots
	for range maxWaiting { // one after the other, in one place
		require.NoError(t, <-ended)
	}
	q.slots <- struct{}{}
	go wait(ctx)
	require.Eventually(t, func() bool { return q.waiting.Load() == 1 }, patience, timeStep)
	cancel()
	require.Error(t, <-ended)
	go wait(t.Context())
	a.lifetime.End(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "enough"})
	require.Error(t, <-ended)
	require.Zero(t, q.waiting.Load())
}

func TestElicitationsThatAreComplete(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			done := make(chan string, 1)
			p := newPartner(t, modern)
			s := p.open(Handlers{ElicitURL: atOnce, Elicited: func(_ context.Context, server, id string) { done <- server + " " + id }})
			p.say(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e7"}}`)
			require.Equal(t, "m e7", <-done)
			require.Nil(t, s.Cause())
		})
	}
}

// On a modern session over HTTP it comes with an answer, if at all.
func TestElicitationsThatAreCompleteOverHTTP(t *testing.T) {
	web := newScripted(t)
	web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		sayResult(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
	})
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		say := sayEvents(w)
		say("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/elicitation/complete\",\"params\":{\"elicitationId\":\"e8\"}}\n\n")
		say("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, isDone)
	})
	done := make(chan string, 1)
	h := Handlers{ElicitURL: atOnce, Elicited: func(_ context.Context, server, id string) { done <- server + " " + id }}
	s := newHTTPDialer(httpSpec(web.URL).WithDefaults(), Options{ClientInfo: testInfo, Handlers: h, Logger: zerolog.Nop()}).NewSession()
	releaseAtEnd(t, s)
	require.NoError(t, s.Open(t.Context()))
	_, err := s.Request(testContext(t), toolCall)
	require.NoError(t, err)
	require.Equal(t, "web e8", <-done)
}

func TestRootsThatChange(t *testing.T) {
	p := newPartner(t, false)
	roots := NewRoots([]*mcp.Root{{URI: "file:///a"}})
	s := p.open(Handlers{Roots: roots})
	p.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	require.JSONEq(t, `{"roots":[{"uri":"file:///a"}]}`, string(p.next("").Result))
	roots.Set(nil)
	p.next("notifications/roots/list_changed")
	p.say(`{"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
	require.JSONEq(t, `{"roots":[]}`, string(p.next("").Result))

	endSession(t, s)
	require.Eventually(t, func() bool { roots.mu.Lock(); defer roots.mu.Unlock(); return len(roots.subscribers) == 0 }, patience, timeStep)

	modern := newPartner(t, true)
	s = modern.open(Handlers{Roots: roots})
	roots.Set(nil)
	go func() { _, _ = s.Request(t.Context(), toolCall) }()
	modern.next("tools/call") // and nothing before it
}

// A change while a session is being opened is not missed.
func TestRootsThatChangedMeanwhile(t *testing.T) {
	roots := NewRoots(nil)
	_, since := roots.Current()
	roots.Set(nil)
	told := 0
	unfollow := roots.Follow(since, func() { told++ })
	require.Equal(t, 1, told)
	roots.Set(nil)
	require.Equal(t, 2, told)
	unfollow()
	roots.Set(nil)
	require.Equal(t, 2, told)
}

// A call during which the server asks is not idle; but it is bounded.
func TestAPersonIsGivenTime(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		fails bool
	}{"within the whole time": {9 * time.Minute, false}, "beyond it": {11 * time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPartner(t, false)
				s := p.open(Handlers{ElicitForm: filling(func(ctx context.Context) {
					select {
					case <-time.After(tc.takes):
					case <-ctx.Done():
					}
				})})
				r := toolCall
				r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
				began := time.Now()
				failed := make(chan error, 1)
				go func() { _, err := s.Request(t.Context(), r); failed <- err }()
				call := p.next("tools/call")
				p.say(question, 1)
				if tc.fails {
					err := <-failed
					require.ErrorContains(t, err, "timed out")
					require.InDelta(t, 10*time.Minute, time.Since(began), float64(time.Second))
				} else {
					require.NotEmpty(t, p.next("").Result)
					p.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, call.ID)
					require.NoError(t, <-failed)
				}
				endSession(t, s)
			})
		})
	}
}
