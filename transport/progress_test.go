package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// tell sends progress about a request.
func (p *peer) tell(id int64, step int) {
	p.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d,"total":9,"message":"step %d"}}`,
		id, step, step)
}

func TestProgressToken(t *testing.T) {
	for want, c := range map[string]struct{ params, meta string }{
		`{"_meta":{"progressToken":7}}`:                 {},
		`{"_meta":{"progressToken":7},"a":1}`:           {params: `{"a":1}`},
		`{"_meta":{"progressToken":7,"v":"x"},"a":1}`:   {params: `{"a":1}`, meta: `{"v":"x"}`},
		`{"_meta":{"progressToken":7},"longer":[2, 3]}`: {params: `{"longer":[2, 3]}`, meta: `{}`},
	} {
		line := AppendRequest(nil, 7, Request{Method: "m", Track: true, Params: json.RawMessage(c.params)}, json.RawMessage(c.meta))
		require.Equal(t, `{"jsonrpc":"2.0","id":7,"method":"m","params":`+want+"}\n", string(line))
	}
}

// TestProgressRestartsTheClock: but never past the hard maximum, and only that
// of the request it is about.
func TestProgressRestartsTheClock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		start := time.Now()
		ended := p.ask(t.Context(), Request{Method: "long", Track: true, Timeout: time.Minute, TotalTimeout: 150 * time.Second})
		var took time.Duration
		long := make(chan outcome)
		go func() {
			got := <-ended
			took = time.Since(start)
			long <- got
		}()
		id := p.read().ID
		other := p.ask(t.Context(), Request{Method: "other", Track: true, Timeout: time.Minute, TotalTimeout: 10 * time.Minute})
		otherID := p.read().ID
		read := make(chan message, 2)
		go func() { read <- p.read(); read <- p.read() }() // the cancellations
		for step := range 3 {
			time.Sleep(50 * time.Second)
			p.tell(id, step)
			if step == 1 {
				got := <-other
				require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
				require.LessOrEqual(t, time.Since(start), 101*time.Second)
				require.Contains(t, string((<-read).Params), fmt.Sprint(otherID))
			}
		}
		got := <-long
		require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
		require.Equal(t, mcpvisor.OutcomeUnknown, got.err.Outcome)
		require.InDelta(t, 150*time.Second, took, float64(10*time.Millisecond))
		require.Contains(t, string((<-read).Params), fmt.Sprint(id))
	})
}

// TestProgressReachesTheCaller: all of it, in order, before the call returns.
func TestProgressReachesTheCaller(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	var heard []mcpvisor.Progress
	ended := p.ask(t.Context(), Request{Method: "m", Track: true,
		Progress: func(r mcpvisor.Progress) { heard = append(heard, r) }})
	id := p.read().ID
	for step := range 50 {
		p.tell(id, step)
	}
	p.say(`{"id":%d,"result":1}`, id)
	require.Equal(t, "1", (<-ended).result)
	require.Len(t, heard, 50)
	for step, r := range heard {
		require.Equal(t, mcpvisor.Progress{Progress: float64(step), Total: 9, Message: fmt.Sprintf("step %d", step)}, r)
	}
}

// TestProgressIsHeardOnTheWay, and a caller that is slow to hear it holds up
// nobody else.
func TestProgressIsHeardOnTheWay(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	hears, goOn := make(chan struct{}), make(chan struct{})
	slow := p.ask(t.Context(), Request{Method: "slow", Track: true, Progress: func(mcpvisor.Progress) {
		hears <- struct{}{}
		<-goOn
	}})
	id := p.read().ID
	p.tell(id, 1)
	<-hears // before there is an answer
	quick := p.ask(t.Context(), Request{Method: "quick"})
	p.say(`{"id":%d,"result":2}`, p.read().ID)
	require.Equal(t, "2", (<-quick).result)
	p.say(`{"id":%d,"result":1}`, id)
	close(goOn)
	require.Equal(t, "1", (<-slow).result)
}

func TestProgressOfNothing(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	for _, params := range []string{`{"progressToken":1,"progress":1}`, `{"progressToken":1099511627999,"progress":1}`} {
		p.say(`{"method":"notifications/progress","params":%s}`, params)
	}
	for _, params := range []string{`{}`, `[]`, `null`, `{"progressToken":{},"progress":1}`, `{"progressToken":1,"progress":"much"}`,
		`{"progressToken":1.5}`} {
		p.say(`{"method":"notifications/progress","params":%s}`, params)
	}
	p.say(`{"method":"notifications/progress"}`)
	ended := p.ask(t.Context(), Request{Method: "m", Track: true})
	p.say(`{"id":%d,"result":1}`, p.read().ID)
	require.Equal(t, "1", (<-ended).result)
	require.Equal(t, mcpvisor.Discarded{Unmatched: 2, Malformed: 7}, p.noise.Counts())
}

// TestProgressOverHTTP: in the stream of the answer, or in the standalone one.
func TestProgressOverHTTP(t *testing.T) {
	const steps = 50
	note := func(token json.RawMessage, step int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, step)
	}
	token := func(id json.RawMessage) json.RawMessage { return id } // it is the id
	hear := func(t *testing.T, s *scripted) []mcpvisor.Progress {
		session := openHTTP(t, httpSpec(s.URL))
		var heard []mcpvisor.Progress
		raw, err := session.Request(t.Context(), Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: patience, Progress: func(r mcpvisor.Progress) { heard = append(heard, r) }})
		require.NoError(t, err)
		require.JSONEq(t, `{"done":true}`, string(raw))
		return heard
	}
	t.Run("beside the answer", func(t *testing.T) {
		s := newScripted(t)
		s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for step := range steps {
				_, _ = fmt.Fprintf(w, "data: %s\n\n", note(token(id), step))
			}
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"done\":true}}\n\n", id)
		})
		heard := hear(t, s)
		require.Len(t, heard, steps)
		for step, r := range heard {
			require.InDelta(t, step, r.Progress, 0)
		}
	})
	t.Run("in the standalone stream", func(t *testing.T) {
		s := newScripted(t)
		notes, told := make(chan string, steps), make(chan struct{})
		s.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for range steps {
				select {
				case text := <-notes:
					_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
				case <-r.Context().Done():
					return
				}
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			for step := range steps {
				notes <- note(token(id), step)
			}
			select {
			case <-told:
			case <-r.Context().Done():
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"done":true}}`, id)
		})
		session := openHTTP(t, httpSpec(s.URL))
		heard := 0
		_, err := session.Request(t.Context(), Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: patience, Progress: func(mcpvisor.Progress) {
				if heard++; heard == steps {
					close(told) // only then the server answers
				}
			}})
		require.NoError(t, err)
	})
	t.Run("keeps a call alive", func(t *testing.T) {
		s := newScripted(t)
		s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for step := 0; ; step++ { // for ever, and never an answer
				if _, err := fmt.Fprintf(w, "data: %s\n\n", note(token(id), step)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-time.After(10 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
		})
		session := openHTTP(t, httpSpec(s.URL))
		start := time.Now()
		_, err := session.Request(context.Background(), Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: 300 * time.Millisecond, TotalTimeout: 900 * time.Millisecond})
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.KindTimeout, e.Kind)
		require.GreaterOrEqual(t, time.Since(start), 900*time.Millisecond)
	})
}
