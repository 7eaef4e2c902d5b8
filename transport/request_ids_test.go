package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// exhaust puts a session to where all but n of its ids have been used.
func exhaust(ids *RequestIDs, n int64) { ids.assigned.Store(EndID - FirstID - 1 - n) }

// token is the progress token of a request.
func token(t *testing.T, params json.RawMessage) (token int64) {
	t.Helper()
	var p struct {
		Meta struct {
			Token int64 `json:"progressToken"`
		} `json:"_meta"`
	}
	require.NoError(t, json.Unmarshal(params, &p))
	return p.Meta.Token
}

func TestRequestIDs(t *testing.T) {
	t.Run("fit_into_32_bits", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		exhaust(&p.ids, 5)
		for range 10 {
			ended := p.ask(t.Context(), Request{Method: "m", Track: true})
			m := p.read()
			require.LessOrEqual(t, m.ID, int64(math.MaxInt32))
			require.GreaterOrEqual(t, m.ID, FirstID, "apart from the ids of the go-sdk")
			require.Equal(t, m.ID, token(t, m.Params))
			p.say(`{"id":%d,"result":1}`, m.ID)
			require.Equal(t, outcome{result: "1"}, <-ended)
		}
	})
	t.Run("in_flight_at_the_wrap_over_pipes", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		type open struct {
			message
			ended <-chan outcome
		}
		send := func() open {
			ended := p.ask(t.Context(), Request{Method: "m", Track: true})
			m := p.read()
			require.Equal(t, m.ID, token(t, m.Params))
			return open{m, ended}
		}
		old := []open{send(), send(), send()}
		exhaust(&p.ids, 1)
		sent := append(old, send(), send(), send())
		require.Equal(t, EndID-1, sent[3].ID)
		require.Equal(t, FirstID, sent[4].ID)
		require.Equal(t, FirstID+4, sent[5].ID, "those between are in flight")
		for i, o := range sent {
			p.say(`{"id":%d,"result":%d}`, o.ID, i)
			require.Equal(t, outcome{result: fmt.Sprint(i)}, <-o.ended)
		}
		require.Empty(t, p.pending)
	})
	t.Run("name_of_a_stream_after_the_wrap", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		first := p.ask(t.Context(), Request{Method: "m"})
		held := p.read()
		exhaust(&p.ids, 0)
		p.ids.assigned.Add(1)
		var named int64
		stream := p.ask(t.Context(), Request{Method: "m", Stream: &Stream{Sent: func(id int64) { named = id }}})
		m := p.read()
		p.say(`{"id":%d,"result":2}`, m.ID)
		require.Equal(t, outcome{result: "2"}, <-stream)
		require.Equal(t, FirstID+2, m.ID)
		require.Equal(t, m.ID, named)
		p.say(`{"id":%d,"result":1}`, held.ID)
		require.Equal(t, outcome{result: "1"}, <-first)
	})
	t.Run("in_flight_at_the_wrap_over_HTTP", func(t *testing.T) {
		var mu sync.Mutex
		var ids, tokens []int64
		came, leave := make(chan int64, 10), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var m message
			_ = json.Unmarshal(body, &m)
			w.Header().Set("Content-Type", "application/json")
			switch m.Method {
			case "server/discover":
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,%s}`, m.ID, unknownMethod)
			case "initialize":
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,%s}`, m.ID, isLegacyServer)
			case "m":
				mu.Lock()
				ids, tokens = append(ids, m.ID), append(tokens, token(t, m.Params))
				mu.Unlock()
				came <- m.ID
				<-leave
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":%d}`, m.ID, m.ID)
			default:
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
		}))
		defer server.Close()
		dialer, err := NewDialer(mcpvisor.ServerSpec{Name: "s", HTTP: &mcpvisor.HTTP{URL: server.URL}}, Options{ClientInfo: testInfo})
		require.NoError(t, err)
		s := dialer.NewSession().(*httpSession)
		require.NoError(t, s.Open(t.Context()))
		defer func() {
			s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
			<-s.Released()
		}()
		ended := make(chan error, 10)
		send := func() {
			go func() {
				_, err := s.Request(context.WithoutCancel(t.Context()), Request{Method: "m", Track: true})
				ended <- err
			}()
			<-came
		}
		for range 3 {
			send()
		}
		exhaust(&s.exchanges.ids, 1)
		for range 3 {
			send()
		}
		close(leave)
		for range 6 {
			require.NoError(t, <-ended)
		}
		require.Equal(t, []int64{FirstID + 1, FirstID + 2, FirstID + 3, EndID - 1, FirstID, FirstID + 4}, ids)
		require.Equal(t, ids, tokens)
	})
}
