package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestRequest_answer_read_before_cancel: a caller whose context ends after the response
// was read gets the response, and all progress before it. The next call gets nothing of
// it.
func TestRequest_answer_read_before_cancel(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		for range 30 { // the order of the two events is random
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, memoryPipe, 1<<20)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first, proceed := make(chan struct{}), make(chan struct{})
				reports := 0
				ended := p.startRequest(ctx, transport.Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
					if reports++; reports == 1 {
						close(first)
						<-proceed
					}
				}})
				id := p.readMessage().ID
				p.writeProgress(id, 1)
				<-first
				p.writeProgress(id, 2)
				p.writeLine(`{"id":%d,"result":"old"}`, id)
				synctest.Wait() // both reports and the response have been read
				if cancels {
					cancel()
				}
				close(proceed)
				require.Equal(t, outcome{result: `"old"`}, <-ended)
				require.Equal(t, 2, reports)

				next := p.startRequest(t.Context(), transport.Request{Method: "next"})
				p.writeLine(`{"id":%d,"result":"new"}`, p.readMessage().ID)
				require.Equal(t, outcome{result: `"new"`}, <-next)
			})
		}
	}
}

// TestRequest_reused_entry_has_new_clocks: a request that reuses the memory of an
// earlier one has its own deadline.
func TestRequest_reused_entry_has_new_clocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		for range 20 {
			first := p.startRequest(t.Context(), transport.Request{Method: "first", Timeout: time.Second, TotalTimeout: time.Second})
			p.writeLine(`{"id":%d,"result":1}`, p.readMessage().ID)
			require.Equal(t, outcome{result: "1"}, <-first)
			time.Sleep(2 * time.Second)
			second := p.startRequest(t.Context(), transport.Request{Method: "second", Timeout: time.Minute})
			id := p.readMessage().ID
			time.Sleep(30 * time.Second)
			p.writeLine(`{"id":%d,"result":2}`, id)
			require.Equal(t, outcome{result: "2"}, <-second)
		}
	})
}

// TestRequest_timeouts_count_from_Began: what the caller has spent on a request before it is
// sent counts against both timeouts.
func TestRequest_timeouts_count_from_Began(t *testing.T) {
	for name, r := range map[string]transport.Request{
		"idle":  {Method: "m", Timeout: time.Minute, TotalTimeout: time.Hour},
		"total": {Method: "m", Timeout: time.Hour, TotalTimeout: time.Minute},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			p := newPeer(t, memoryPipe, 1<<20)
			r.Began = time.Now()
			time.Sleep(20 * time.Second)
			ended := p.startRequest(t.Context(), r)
			p.readMessage()
			read := make(chan transporttest.Message, 1)
			go func() { read <- p.readMessage() }()
			require.Equal(t, mcpvisor.ErrTimeout, (<-ended).err.Kind)
			require.InDelta(t, time.Minute, time.Since(r.Began), float64(jsonrpc.SweepGrain))
			require.Equal(t, "notifications/cancelled", (<-read).Method)
		})
	}
}

// TestRequest_keeps_no_params: the caller may reuse the memory of the parameters once its
// request has returned, even if the line is still being written.
func TestRequest_keeps_no_params(t *testing.T) {
	for name, size := range map[string]int{"in a batch": maxBatchBytes / 2, "a line of its own": 200 << 10} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			params := []byte(`{"text":"` + strings.Repeat("a", size) + `"}`)
			want := string(params)
			ctx, cancel := context.WithCancel(t.Context())
			ended := p.startRequest(ctx, transport.Request{Method: "m", Params: params})
			_, err := p.in.Peek(1) // the server has read the beginning
			require.NoError(t, err)
			cancel()
			require.Equal(t, mcpvisor.ErrCanceled, (<-ended).err.Kind)
			for i := range params {
				params[i] = 'x'
			}
			require.Equal(t, want, string(p.readMessage().Params))
		})
	}
}

// TestRequest_error_is_redacted: servers repeat secrets in their errors.
func TestRequest_error_is_redacted(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	p.redactor = strings.NewReplacer(transporttest.Secret, "***").Replace
	ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
	p.writeLine(`{"id":%d,"error":{"code":1,"message":"bad key %s","data":["%[2]s"]}}`, p.readMessage().ID, transporttest.Secret)
	got := <-ended
	require.Contains(t, got.err.Error(), "bad key ***")
	raw, err := json.Marshal(got.err.Cause)
	require.NoError(t, err)
	require.NotContains(t, string(raw), transporttest.Secret)
	require.NotContains(t, got.err.Error(), transporttest.Secret)
}

// TestRequest_session_not_open: a request of a session that is not open, or could not be
// opened, is not sent.
func TestRequest_session_not_open(t *testing.T) {
	d, _ := newServerDialer(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	s := d.NewSession()
	for _, kind := range []mcpvisor.ErrorKind{mcpvisor.ErrUnavailable, mcpvisor.ErrClosed} {
		_, err := s.Request(t.Context(), transporttest.ToolCall)
		e := testutil.AsError[*mcpvisor.Error](t, err)
		require.Equal(t, kind, e.Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		s.Abort(transporttest.ErrGivenUp)
	}
}

// TestRequest_ends_once: each request ends once when responses, deadlines, cancellations
// and the end of the connection coincide.
func TestRequest_ends_once(t *testing.T) {
	for range 20 {
		p := newPeer(t, osPipe, 1<<20)
		var all []<-chan outcome
		for i := range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			r := transport.Request{Method: "m"}
			if i%3 == 0 {
				r.Timeout = time.Duration(i) * 50 * time.Microsecond
			}
			all = append(all, p.startRequest(ctx, r))
			if i%4 == 1 {
				time.AfterFunc(time.Duration(i)*30*time.Microsecond, cancel)
			} else {
				defer cancel()
			}
		}
		for range 20 {
			if m := p.readMessage(); m.Method == "m" && m.ID%2 == 0 {
				p.writeLine(`{"id":%d,"result":%d}`, m.ID, m.ID)
			}
		}
		p.end(errEnded)
		for _, ended := range all {
			if got := <-ended; got.err == nil {
				require.NotEmpty(t, got.result)
			}
		}
		require.Empty(t, slices.Collect(p.table.Open.All()))
	}
}

// TestCancel_keeps_the_cause_of_the_caller: a call whose context ends is canceled, never
// timed out, even if the cause of the context is a timeout of another call.
func TestCancel_keeps_the_cause_of_the_caller(t *testing.T) {
	for name, cause := range transporttest.ForeignCauses {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ctx, cancel := context.WithCancelCause(t.Context())
			failed := p.startRequest(ctx, transport.Request{Method: "tools/call"})
			id := p.readMessage().ID
			cancel(cause)
			transporttest.RequireCanceled(t, (<-failed).err, context.Canceled, cause, mcpvisor.OutcomeUnknown)
			notice := p.readMessage()
			require.Equal(t, "notifications/cancelled", notice.Method)
			require.JSONEq(t, fmt.Sprintf(`{"requestId":%d,"reason":"canceled"}`, id), string(notice.Params))
		})
	}
}

// TestCancel_notifies_the_server: when the server has seen a canceled request, it is
// notified, and the outcome of the call is unknown.
func TestCancel_notifies_the_server(t *testing.T) {
	for reason, stop := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"canceled": context.WithCancel,
		"timed out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ctx, cancel := stop(t.Context())
			defer cancel()
			ended := p.startRequest(ctx, transport.Request{Method: "m"})
			id := p.readMessage().ID
			if reason == "canceled" {
				cancel()
			}
			got := <-ended
			require.Equal(t, mcpvisor.ErrCanceled, got.err.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, got.err.Outcome)
			require.ErrorIs(t, got.err, ctx.Err())
			m := p.readMessage()
			require.Equal(t, "notifications/cancelled", m.Method)
			require.JSONEq(t, fmt.Sprintf(`{"requestId":%d,"reason":%q}`, id, reason), string(m.Params))
		})
	}
	p := newPeer(t, osPipe, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := <-p.startRequest(ctx, transport.Request{Method: "m"}) // its context has ended already
	require.Equal(t, mcpvisor.OutcomeNotSent, got.err.Outcome)
	require.True(t, p.postLine(&outgoing{text: []byte(`{"method":"last"}` + "\n")}))
	require.Equal(t, "last", p.readMessage().Method)
}

// TestDeadline_of_an_unsent_request: with a server that does not read, a request times
// out unsent, and no cancellation is sent.
func TestDeadline_of_an_unsent_request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		first := p.startRequest(t.Context(), transport.Request{Method: "first"})
		synctest.Wait() // its write blocks, because the server does not read
		start := time.Now()
		got := <-p.startRequest(t.Context(), transport.Request{Method: "second", Timeout: time.Minute})
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, mcpvisor.ErrTimeout, got.err.Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, got.err.Outcome)
		require.True(t, got.err.Retryable())

		m := p.readMessage()
		require.Equal(t, "first", m.Method)
		p.writeLine(`{"id":%d,"result":1}`, m.ID)
		require.Equal(t, outcome{result: "1"}, <-first)
		third := p.startRequest(t.Context(), transport.Request{Method: "third"})
		m = p.readMessage()
		require.Equal(t, "third", m.Method, "neither the second request nor its cancellation is sent")
		p.writeLine(`{"id":%d,"result":3}`, m.ID)
		require.Equal(t, outcome{result: "3"}, <-third)
	})
}

// openStream sends a request that stays open, and reads it as the server.
func openStream(t *testing.T, p *peer, cancelGrace time.Duration) (id int64, stop func(), ended <-chan outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int64, 1)
	ended = p.startRequest(ctx, transport.Request{Method: "subscriptions/listen",
		Stream: &transport.Stream{CancelGrace: cancelGrace, Sent: func(id int64) { sent <- id }}})
	m := p.readMessage()
	require.Equal(t, "subscriptions/listen", m.Method)
	require.Equal(t, m.ID, <-sent, "the id is reported before the request is sent")
	return m.ID, cancel, ended
}

// TestStream_ends_with_the_response: a cancelled stream ends when the server answers it.
func TestStream_ends_with_the_response(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	id, stop, ended := openStream(t, p, time.Hour)
	stop()
	m := p.readMessage()
	require.Equal(t, "notifications/cancelled", m.Method)
	require.Contains(t, string(m.Params), "requestId")
	select {
	case <-ended:
		require.FailNow(t, "the stream ended before the server answered")
	case <-time.After(50 * time.Millisecond):
	}
	p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)
	o := <-ended
	require.Equal(t, mcpvisor.ErrCanceled, o.err.Kind)
	require.Zero(t, p.discarded.Counts().Unmatched)
}

// TestStream_reports_its_cancellation: what is sent after Cancelled was called follows the
// cancellation.
func TestStream_reports_its_cancellation(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	ctx, stop := context.WithCancel(t.Context())
	cancelled := make(chan struct{})
	ended := p.startRequest(ctx, transport.Request{Method: "subscriptions/listen",
		Stream: &transport.Stream{CancelGrace: time.Hour, Cancelled: func() {
			p.postLine(&outgoing{text: []byte(`{"jsonrpc":"2.0","method":"notifications/after"}` + "\n")})
			close(cancelled)
		}}})
	require.Equal(t, "subscriptions/listen", p.readMessage().Method)
	stop()
	require.Equal(t, "notifications/cancelled", p.readMessage().Method)
	require.Equal(t, "notifications/after", p.readMessage().Method)
	<-cancelled
	require.Empty(t, ended, "the wait for a confirmation goes on")
}

// TestStream_cancelled_without_response: a server need not answer a cancelled request
// (MCP, cancellation). The wait ends after CancelGrace, and the cancellation is sent
// once.
func TestStream_cancelled_without_response(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	_, stop, ended := openStream(t, p, 10*time.Millisecond)
	stop()
	require.Equal(t, mcpvisor.ErrCanceled, (<-ended).err.Kind)
	other := p.startRequest(t.Context(), transport.Request{Method: "tools/list"})
	require.Equal(t, "notifications/cancelled", p.readMessage().Method)
	m := p.readMessage()
	require.Equal(t, "tools/list", m.Method)
	p.writeLine(`{"jsonrpc":"2.0","id":%d,"result":{}}`, m.ID)
	require.Nil(t, (<-other).err)
}

// TestStream_ends_with_the_session: the end of the session ends the wait for a response
// to a cancelled stream.
func TestStream_ends_with_the_session(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	_, stop, ended := openStream(t, p, time.Hour)
	stop()
	p.end(&supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 1"})
	require.NotNil(t, (<-ended).err)
}

// writeProgress writes a progress notification as the server.
func (p *peer) writeProgress(id int64, step int) {
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d,"total":9,"message":"step %d"}}`,
		id, step, step)
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
		_, _ = p.request(t.Context(), &transport.Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
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
	require.Empty(t, slices.Collect(p.table.Open.All()))
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
						_, _ = p.request(ctx, &transport.Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
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
