package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// rounder is a modern server that answers each round of a request by what
// round says, from 1.
type rounder struct {
	session Session
	seen    func() []map[string]json.RawMessage // the parameters of each round
	ids     func() []string
}

// overBoth runs a test over both kinds of transport.
func overBoth(t *testing.T, h Handlers, round func(n int) string, test func(t *testing.T, r rounder)) {
	t.Helper()
	t.Run("stream", func(t *testing.T) {
		p := newPartner(t, true)
		s := p.open(h)
		var all []map[string]json.RawMessage
		var ids []string
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			for n := 1; ; n++ {
				select {
				case m := <-p.heard:
					all, ids = append(all, m.Params), append(ids, string(m.ID))
					p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, round(n))
				case <-s.Dead():
					return
				}
			}
		}()
		end := func() { endSession(t, s); <-finished }
		test(t, rounder{s, func() []map[string]json.RawMessage { end(); return all }, func() []string { end(); return ids }})
		end()
	})
	t.Run("http", func(t *testing.T) {
		web := newScripted(t)
		n := 0
		web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			sayResult(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
		})
		answer := func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			n++
			sayResult(w, id, round(n))
		}
		web.handle("tools/call", answer)
		web.handle("tools/list", answer)
		spec := httpSpec(web.URL)
		spec.HTTP.Headers = map[string]string{"X-Key": secretOfRounds}
		d := newHTTPDialer(spec.WithDefaults(), Options{ClientInfo: testInfo, Handlers: h, Logger: zerolog.Nop()})
		s := d.NewSession()
		releaseAtEnd(t, s)
		require.NoError(t, s.Open(t.Context()))
		var ids []string
		seen := func() (all []map[string]json.RawMessage) {
			ids = nil
			for _, r := range web.requests("tools/call") {
				var m said
				require.NoError(t, json.Unmarshal([]byte(r.body), &m))
				require.Equal(t, "echo", r.header.Get("Mcp-Name"))
				all, ids = append(all, m.Params), append(ids, string(m.ID))
			}
			return all
		}
		test(t, rounder{s, seen, func() []string { seen(); return ids }})
	})
}

const (
	wantsForm = `{"resultType":"input_required","inputRequests":{"form":{"method":"elicitation/create","params":{"message":"?",
		"requestedSchema":{"type":"object","properties":{"level":{"type":"integer","default":3}}}}}},"requestState":"s"}`
	isDone = `{"resultType":"complete","content":[{"type":"text","text":"done, input_required no more: \"input_required\""}]}`
)

func oneLineOf(text string) string { return string(OneLine(json.RawMessage(text))) }

func TestRounds(t *testing.T) {
	// A state is nobody's business but the server's: not even its spelling.
	const state = `"\u0061\/é\u00e9 <&> \\u003c \ud83d\ude00"`
	rounds := []string{
		oneLineOf(wantsForm),
		`{"requestState":` + state + `,"_meta":{"a":[1]},"inputRequests":{
			"m<1>":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":7}},
			"r":{"method":"roots/list"}},"resultType":"input_required"}`,
		`{"resultType":"input_required","inputRequests":{"last":{"method":"elicitation/create","params":{"message":"?"}}}}`,
		isDone,
	}
	h := Handlers{ElicitForm: atOnce, Sample: anySample, Roots: NewRoots([]*mcp.Root{{URI: "file:///a"}})}
	overBoth(t, h, func(n int) string { return oneLineOf(rounds[n-1]) }, func(t *testing.T, r rounder) {
		call := Request{Method: "tools/call", Target: "echo", Params: json.RawMessage(` {"name":"echo","arguments":{"a":"}"}} `), Track: true}
		result, err := r.session.Request(testContext(t), call)
		require.NoError(t, err)
		require.Equal(t, isDone, string(result))
		seen := r.seen()
		require.Len(t, seen, 4)
		different := map[string]bool{}
		for _, id := range r.ids() {
			different[id] = true
		}
		require.Len(t, different, 4)
		for _, params := range seen {
			require.Equal(t, `"echo"`, string(params["name"]))
			require.Equal(t, `{"a":"}"}`, string(params["arguments"]))
			require.Contains(t, string(params["_meta"]), ModernVersion)
		}
		require.Empty(t, seen[0]["inputResponses"])
		require.Empty(t, seen[0]["requestState"])
		require.JSONEq(t, `{"form":{"action":"accept","content":{"level":3}}}`, string(seen[1]["inputResponses"]))
		require.Equal(t, `"s"`, string(seen[1]["requestState"]))
		require.JSONEq(t, `{"m<1>":{"role":"assistant","model":"","content":{"type":"text","text":"hi"}},"r":{"roots":[{"uri":"file:///a"}]}}`,
			string(seen[2]["inputResponses"]))
		require.Equal(t, state, string(seen[2]["requestState"]))
		require.JSONEq(t, `{"last":{"action":"accept"}}`, string(seen[3]["inputResponses"]))
		require.NotContains(t, seen[3], "requestState")
	})
}

// secretOfRounds is a header, or a variable, of the servers.
const secretOfRounds = "hunter22"

var errByHost = errors.New("said by the host")

// What cannot be given costs the one request, and is not asked for again.
func TestRoundsThatComeToNothing(t *testing.T) {
	fails := Handlers{ElicitForm: func(context.Context, string, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, errByHost }}
	panics := Handlers{ElicitForm: filling(func(context.Context) { panic(errByHost) })}
	wants := func(requests string) string {
		return `{"resultType":"input_required","inputRequests":` + requests + `}`
	}
	many := `{"a0":{"method":"roots/list"}`
	for range MaxInputRequests {
		many += `,"a":{"method":"roots/list"}`
	}
	for name, tc := range map[string]struct {
		handlers Handlers
		result   string
		sent     int
		says     string
		hint     bool
	}{
		"no handler":      {Handlers{}, wantsForm, 1, `"form" wants elicitation/create`, true},
		"unknown method":  {fails, wants(`{"x":{"method":"tools/list"}}`), 1, `"x" wants "tools/list", which clients do not have`, true},
		"the host fails":  {fails, wantsForm, 1, "said by the host", false},
		"the host panics": {panics, wantsForm, 1, "the handler panicked: said by the host", false},
		"a secret":        {fails, wants(`{"Bearer hunter22":{"method":"elicitation/create","params":{"requestedSchema":{"properties":{"hunter22":{"type":"null"}}}}}}`), 1, "unsupported type", false},
		"a secret wanted": {fails, wants(`{"x":{"method":"hunter22"}}`), 1, "clients do not have", true},
		"bad parameters":  {fails, wants(`{"x":{"method":"elicitation/create","params":7}}`), 1, "cannot be read", false},
		"no parameters":   {fails, wants(`{"x":{"method":"elicitation/create"}}`), 1, "are missing", false},
		"no object":       {fails, wants(`[1]`), 1, "", true},
		"no requests":     {fails, wants(`null`), 1, "does not say which", true},
		"too many":        {fails, wants(many + "}"), 1, "more than 32", true},
		"for ever":        {Handlers{ElicitForm: atOnce}, wantsForm, MaxRounds, "sent 8 times", true},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, tc.handlers, func(int) string { return oneLineOf(tc.result) }, func(t *testing.T, r rounder) {
				_, err := r.session.Request(testContext(t), toolCall)
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.ErrorIs(t, e, mcpvisor.ErrInputRequired)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
				require.ErrorContains(t, e, tc.says)
				require.NotContains(t, e.Error(), secretOfRounds)
				require.Equal(t, tc.hint, e.Hint != "", e.Hint)
				require.Equal(t, tc.says == errByHost.Error(), errors.Is(e, errByHost))
				require.Nil(t, r.session.Cause())
				require.Len(t, r.seen(), tc.sent)
			})
		})
	}
}

// Only the results of certain methods, of modern servers, are read that way.
func TestWhatIsNoRound(t *testing.T) {
	require.True(t, NeedsInput("resources/read", []byte(wantsForm)))
	require.True(t, NeedsInput("prompts/get", []byte(wantsForm)))
	require.False(t, NeedsInput("tools/list", []byte(wantsForm)))
	require.False(t, NeedsInput("tools/call", []byte(isDone)))
	require.False(t, NeedsInput("tools/call", []byte(`{"resultType":"complete","structuredContent":{"state":"input_required"}}`)))
	require.False(t, NeedsInput("tools/call", []byte(`{"inputRequests":{"a":{}}}`)))
	require.False(t, NeedsInput("tools/call", []byte(`{"content":[],"structuredContent":{"resultType":"input_required"}}`)))

	p := newPartner(t, false)
	s := p.open(Handlers{ElicitForm: atOnce})
	go func() {
		m := <-p.heard
		p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, oneLineOf(wantsForm))
	}()
	result, err := s.Request(testContext(t), toolCall)
	require.NoError(t, err)
	require.JSONEq(t, wantsForm, string(result))
}

// slowly is a handler that takes its time, unless nobody waits any more.
func slowly(d time.Duration) Handlers {
	return Handlers{ElicitForm: filling(func(ctx context.Context) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	})}
}

// A person's time is not the server's: of the clocks of a call only the last
// bound counts, over all rounds.
func TestRoundsAndTheirClocks(t *testing.T) {
	for name, tc := range map[string]struct {
		takes, leaves, ends time.Duration
		err                 error
	}{
		"one answer":  {9 * time.Minute, 0, 0, nil},
		"two answers": {6 * time.Minute, 0, 10 * time.Minute, mcpvisor.ErrTimeout},
		"the caller":  {6 * time.Minute, 2 * time.Minute, 2 * time.Minute, mcpvisor.ErrCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPartner(t, true)
				s := p.open(slowly(tc.takes))
				defer endSession(t, s)
				ctx := t.Context()
				if tc.leaves > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.leaves)
					defer cancel()
				}
				r := toolCall
				r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
				began := time.Now()
				failed := make(chan error, 1)
				go func() { _, err := s.Request(ctx, r); failed <- err }()
				first := p.next("tools/call")
				p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, first.ID, oneLineOf(wantsForm))
				if tc.leaves == 0 {
					second := p.next("tools/call")
					answer := isDone
					if tc.err != nil {
						answer = oneLineOf(wantsForm)
					}
					p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, second.ID, answer)
				}
				err := <-failed
				if tc.err == nil {
					require.NoError(t, err)
					return
				}
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.ErrorIs(t, e, tc.err)
				require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
				require.Equal(t, tc.ends, time.Since(began))
				require.Empty(t, p.heard)
			})
		})
	}
}

// The last round has what the earlier ones have left of the whole time.
func TestALastRoundIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPartner(t, true)
		s := p.open(slowly(570 * time.Second))
		defer endSession(t, s)
		r := toolCall
		r.Timeout, r.TotalTimeout = time.Minute, 10*time.Minute
		began := time.Now()
		failed := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), r); failed <- err }()
		p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.next("tools/call").ID, oneLineOf(wantsForm))
		p.next("tools/call")
		var e *mcpvisor.Error
		require.ErrorAs(t, <-failed, &e)
		require.ErrorIs(t, e, mcpvisor.ErrTimeout)
		require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		require.InDelta(t, 10*time.Minute, time.Since(began), float64(time.Second))
	})
}

// A later round that was not sent is no request that was not sent.
func TestALaterRoundIsNotTheFirst(t *testing.T) {
	p := newPartner(t, true)
	s := p.open(Handlers{ElicitForm: atOnce})
	send := func(context.Context, Request) (json.RawMessage, error) {
		return nil, &mcpvisor.Error{Kind: mcpvisor.KindCrashed, Outcome: mcpvisor.OutcomeNotSent}
	}
	_, err := s.ready.Load().answers.ContinueWithInput(t.Context(), toolCall, time.Now(), []byte(oneLineOf(wantsForm)), send)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.False(t, e.Retryable())
}

// A server puts a request off by wanting nothing; it is asked again, slowly,
// and not for ever.
func TestRequestsThatArePutOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPartner(t, true)
		s := p.open(Handlers{})
		defer endSession(t, s)
		failed := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), toolCall); failed <- err }()
		began := time.Now()
		for range maxEmptyRounds + 1 {
			m := p.next("tools/call")
			require.NotContains(t, m.Params, "inputResponses")
			p.say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","requestState":"later"}}`, m.ID)
		}
		err := <-failed
		require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.OutcomeAnswered, e.Outcome)
		require.GreaterOrEqual(t, time.Since(began), 3*firstPause)
	})
}

// A session that dies while somebody is asked ends the asking, and the call,
// which nobody repeats: the server has seen it.
func TestADeathBetweenRounds(t *testing.T) {
	p := newPartner(t, true)
	ended := make(chan error, 1)
	began := make(chan struct{})
	s := p.open(Handlers{ElicitForm: filling(func(ctx context.Context) {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
	})})
	failed := make(chan error, 1)
	go func() { _, err := s.Request(t.Context(), toolCall); failed <- err }()
	m := p.next("tools/call")
	p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, oneLineOf(wantsForm))
	<-began
	endSession(t, s)
	var e *mcpvisor.Error
	require.ErrorAs(t, <-failed, &e)
	require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
	require.ErrorIs(t, <-ended, s.Cause())
}
