package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// Whoever is told has panicked: it is not told again, the server hears that
// nobody waits, and nothing of the call is kept.
func TestProgressThatPanics(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	told, leave := make(chan struct{}), make(chan struct{})
	calls := 0
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = p.request(t.Context(), Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
			if calls++; calls == 1 {
				close(told)
				<-leave
			}
			panic("of the host")
		}}, nil)
	}()
	id := p.read().ID
	p.tell(id, 1)
	<-told
	p.tell(id, 2)
	other := p.ask(t.Context(), Request{Method: "other"})
	p.say(`{"id":%d,"result":1}`, p.read().ID)
	require.Equal(t, "1", (<-other).result) // so that was read
	close(leave)
	require.Equal(t, "notifications/cancelled", p.read().Method)
	require.Equal(t, "of the host", <-panicked)
	require.Equal(t, 1, calls)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.pending)
}

// The same over HTTP.
func TestProgressThatPanicsOverHTTP(t *testing.T) {
	web := newScripted(t)
	canceled := make(chan struct{})
	web.handle("notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusAccepted)
		close(canceled)
	})
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		sayEvents(w)("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", id)
		web.hang(r)
	})
	s := openHTTP(t, httpSpec(web.URL))
	r := toolCall
	r.Track, r.Progress = true, func(mcpvisor.Progress) { panic("of the host") }
	require.PanicsWithValue(t, "of the host", func() { _, _ = s.Request(t.Context(), r) })
	requireClosed(t, canceled, "the server is not told")
	require.Eventually(t, func() bool {
		s.exchanges.mu.Lock()
		defer s.exchanges.mu.Unlock()
		for id := range s.exchanges.open {
			if id > 0 {
				return false
			}
		}
		return true
	}, patience, timeStep)
}

// A server that is quicker than the one it reports to does not fill the memory of
// the host.
func TestProgressIsBoundedInBytes(t *testing.T) {
	p := newPeer(t, memoryPipe, 4<<20)
	in, leave := make(chan struct{}), make(chan struct{})
	longest, all, first := 0, 0, true
	ended := p.ask(t.Context(), Request{Method: "m", Track: true, Progress: func(r mcpvisor.Progress) {
		if first {
			first = false
			close(in)
			<-leave
		}
		longest, all = max(longest, len(r.Message)), all+len(r.Message)
	}})
	id := p.read().ID
	p.tell(id, 1)
	<-in
	for range 200 {
		p.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1,"message":"%s"}}`, id, strings.Repeat("x", 32<<10))
	}
	p.say(`{"id":%d,"result":1}`, id)
	close(leave)
	require.Equal(t, "1", (<-ended).result)
	require.LessOrEqual(t, longest, maxProgress)
	require.LessOrEqual(t, all, maxQueuedBytes+maxProgress)
	require.Greater(t, all, maxQueuedBytes/2)
	require.Positive(t, p.noise.Counts().Dropped)
}

// TestNewsAreBounded: by number and by size, and what is told makes room.
func TestNewsAreBounded(t *testing.T) {
	for _, size := range []int{0, maxProgress} {
		told := 0
		n := NewProgressQueue(func(mcpvisor.Progress) { told++ })
		most := maxQueuedReports
		if size > 0 {
			most = maxQueuedBytes / size
		}
		for range 2 {
			told = 0
			for range most {
				require.True(t, n.Push(mcpvisor.Progress{Message: strings.Repeat("x", size)}))
			}
			require.False(t, n.Push(mcpvisor.Progress{Message: strings.Repeat("x", size)}))
			n.Deliver()
			require.Equal(t, most, told)
		}
	}
}

// panicking is a RoundTripper of the host's that panics when it is to send a call.
type panicking struct{ http.RoundTripper }

func (p panicking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Now") != "" && r.Context().Value(panicNow{}) != nil {
		panic("of the host")
	}
	return p.RoundTripper.RoundTrip(r)
}

type panicNow struct{}

// It costs its one request, in whichever goroutine that is made.
func TestARoundTripperThatPanics(t *testing.T) {
	web := newScripted(t)
	spec := httpSpec(web.URL)
	spec.HTTP.Headers = map[string]string{"X-Now": "1"}
	spec.HTTP.Client = &http.Client{Transport: panicking{web.Client().Transport}}
	s := openHTTP(t, spec)
	for _, hear := range []func(mcpvisor.Progress){nil, func(mcpvisor.Progress) {}} {
		r := toolCall
		r.Progress = hear
		_, err := s.Request(context.WithValue(testContext(t), panicNow{}, true), r)
		require.ErrorContains(t, err, "RoundTripper panicked")
		requireServing(t, s)
	}
}
