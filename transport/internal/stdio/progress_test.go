package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// writeProgress writes a progress notification as the server.
func (p *peer) writeProgress(id int64, step int) {
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d,"total":9,"message":"step %d"}}`,
		id, step, step)
}

// TestProgress_restarts_the_idle_clock: progress restarts the idle clock of its own
// request only, and never extends the total timeout.
func TestProgress_restarts_the_idle_clock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		start := time.Now()
		ended := p.startRequest(t.Context(), transport.Request{Method: "long", Track: true, Timeout: time.Minute, TotalTimeout: 150 * time.Second})
		var took time.Duration
		long := make(chan outcome)
		go func() {
			got := <-ended
			took = time.Since(start)
			long <- got
		}()
		id := p.readMessage().ID
		other := p.startRequest(t.Context(), transport.Request{Method: "other", Track: true, Timeout: time.Minute, TotalTimeout: 10 * time.Minute})
		otherID := p.readMessage().ID
		read := make(chan transporttest.Message, 2)
		go func() { read <- p.readMessage(); read <- p.readMessage() }() // reads both cancellations
		for step := range 3 {
			time.Sleep(50 * time.Second)
			p.writeProgress(id, step)
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

// TestProgress_delivered_in_order: all reports reach the callback, in order, before the
// call returns.
func TestProgress_delivered_in_order(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	var received []mcpvisor.Progress
	ended := p.startRequest(t.Context(), transport.Request{Method: "m", Track: true,
		Progress: func(r mcpvisor.Progress) { received = append(received, r) }})
	id := p.readMessage().ID
	for step := range 50 {
		p.writeProgress(id, step)
	}
	p.writeLine(`{"id":%d,"result":1}`, id)
	require.Equal(t, "1", (<-ended).result)
	require.Len(t, received, 50)
	for step, r := range received {
		require.Equal(t, mcpvisor.Progress{Progress: float64(step), Total: 9, Message: fmt.Sprintf("step %d", step)}, r)
	}
}

// TestProgress_delivered_before_the_response: reports are delivered while the call is in
// flight, and a slow callback does not delay other calls.
func TestProgress_delivered_before_the_response(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	reported, proceed := make(chan struct{}), make(chan struct{})
	slow := p.startRequest(t.Context(), transport.Request{Method: "slow", Track: true, Progress: func(mcpvisor.Progress) {
		reported <- struct{}{}
		<-proceed
	}})
	id := p.readMessage().ID
	p.writeProgress(id, 1)
	<-reported // the response is not written yet
	quick := p.startRequest(t.Context(), transport.Request{Method: "quick"})
	p.writeLine(`{"id":%d,"result":2}`, p.readMessage().ID)
	require.Equal(t, "2", (<-quick).result)
	p.writeLine(`{"id":%d,"result":1}`, id)
	close(proceed)
	require.Equal(t, "1", (<-slow).result)
}

// TestProgress_unknown_or_malformed_token: progress that names no request in flight is
// counted.
func TestProgress_unknown_or_malformed_token(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	for _, params := range []string{`{"progressToken":1,"progress":1}`, `{"progressToken":1099511627999,"progress":1}`} {
		p.writeLine(`{"method":"notifications/progress","params":%s}`, params)
	}
	for _, params := range []string{`{}`, `[]`, `null`, `{"progressToken":{},"progress":1}`, `{"progressToken":1,"progress":"much"}`,
		`{"progressToken":1.5}`} {
		p.writeLine(`{"method":"notifications/progress","params":%s}`, params)
	}
	p.writeLine(`{"method":"notifications/progress"}`)
	ended := p.startRequest(t.Context(), transport.Request{Method: "m", Track: true})
	p.writeLine(`{"id":%d,"result":1}`, p.readMessage().ID)
	require.Equal(t, "1", (<-ended).result)
	require.Equal(t, mcpvisor.Discarded{Unmatched: 2, Malformed: 7}, p.discarded.Counts())
}

// TestProgress_text_is_cleaned: control characters and secrets are removed from
// messages.
func TestProgress_text_is_cleaned(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		p.notifications.Redact = stdioRedactor(&mcpvisor.Stdio{Args: []string{"--api-key", "canary-header"}})
		var message string
		ended := p.startRequest(t.Context(), transport.Request{Method: "m", Track: true, Progress: func(r mcpvisor.Progress) { message = r.Message }})
		id := p.readMessage().ID
		text, err := json.Marshal(transporttest.ProgressText + "canary-header")
		require.NoError(t, err)
		p.writeLine(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1,"message":%s}}`, id, text)
		p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
		require.Nil(t, (<-ended).err)
		require.Equal(t, "step [31mone of two with ***", message)
	})
}

// TestProgress_callback_panics: after a panic of the callback, no more reports are
// delivered, the server is notified of the cancellation, and the request leaves the
// table.
func TestProgress_callback_panics(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	received, leave := make(chan struct{}), make(chan struct{})
	calls := 0
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = p.request(t.Context(), transport.Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
			if calls++; calls == 1 {
				close(received)
				<-leave
			}
			panic("callback failed")
		}}, nil)
	}()
	id := p.readMessage().ID
	p.writeProgress(id, 1)
	<-received
	p.writeProgress(id, 2)
	other := p.startRequest(t.Context(), transport.Request{Method: "other"})
	p.writeLine(`{"id":%d,"result":1}`, p.readMessage().ID)
	require.Equal(t, "1", (<-other).result) // the second report has been read by now
	close(leave)
	require.Equal(t, "notifications/cancelled", p.readMessage().Method)
	require.Equal(t, "callback failed", <-panicked)
	require.Equal(t, 1, calls)
	p.table.Mu.Lock()
	defer p.table.Mu.Unlock()
	require.Zero(t, p.table.Open.Len())
}

// TestProgress_bounded_bytes: reports that wait for a slow callback are bounded in
// bytes.
func TestProgress_bounded_bytes(t *testing.T) {
	p := newPeer(t, memoryPipe, 4<<20)
	in, leave := make(chan struct{}), make(chan struct{})
	longest, all, first := 0, 0, true
	ended := p.startRequest(t.Context(), transport.Request{Method: "m", Track: true, Progress: func(r mcpvisor.Progress) {
		if first {
			first = false
			close(in)
			<-leave
		}
		longest, all = max(longest, len(r.Message)), all+len(r.Message)
	}})
	id := p.readMessage().ID
	p.writeProgress(id, 1)
	<-in
	for range 200 {
		p.writeLine(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1,"message":"%s"}}`, id, strings.Repeat("x", 32<<10))
	}
	p.writeLine(`{"id":%d,"result":1}`, id)
	close(leave)
	require.Equal(t, "1", (<-ended).result)
	require.LessOrEqual(t, longest, jsonrpc.MaxProgressMessage)
	require.LessOrEqual(t, all, jsonrpc.MaxQueuedProgress+jsonrpc.MaxProgressMessage)
	require.Greater(t, all, jsonrpc.MaxQueuedProgress/2)
	require.Positive(t, p.discarded.Counts().Dropped)
}

// A Progress that panics on a report that is delivered together with the end of the request
// does not keep its caller.
func TestProgress_panic_at_the_end_of_a_request(t *testing.T) {
	for name, end := range map[string]func(p *peer, id int64, cancel func()){
		"answer": func(p *peer, id int64, _ func()) { p.writeLine(`{"id":%d,"result":{}}`, id) },
		"cancel": func(_ *peer, _ int64, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // which of two ready channels is taken is random
				synctest.Test(t, func(t *testing.T) {
					p := newPeer(t, memoryPipe, 1<<20)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					reports, proceed, ended := 0, make(chan struct{}), make(chan any, 1)
					go func() {
						defer func() { ended <- recover() }()
						_, _ = p.request(ctx, transport.Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
							if reports++; reports == 1 {
								<-proceed
								return
							}
							panic("host")
						}}, nil)
					}()
					id := p.readMessage().ID
					go func() { _, _ = io.Copy(io.Discard, p.in) }() // the cancellation
					p.writeProgress(id, 1)
					synctest.Wait()
					p.writeProgress(id, 2)
					end(p, id, cancel)
					synctest.Wait()
					close(proceed)
					require.Equal(t, "host", <-ended)
				})
			}
		})
	}
}
