package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// size returns how many exchanges are in the table.
func (t *exchangeTable) size() int {
	t.requests.Mu.Lock()
	defer t.requests.Mu.Unlock()
	return len(slices.Collect(t.requests.Open.All()))
}

// requireEnd asserts that an exchange has ended, and why.
func requireEnd(t *testing.T, x *exchange, wantErr, wantCause error) {
	t.Helper()
	err, cause := jsonrpc.ContextEnd(x.ctx)
	require.Equal(t, wantErr, err)
	require.ErrorIs(t, cause, wantCause)
}

func TestExchange(t *testing.T) {
	t.Run("ends with its caller", func(t *testing.T) {
		var table exchangeTable
		why := errors.New("not needed any more")
		caller, cancel := context.WithCancelCause(context.WithValue(context.Background(), "k", "v")) //nolint:staticcheck // a test
		x := table.start(caller, time.Hour)
		require.Equal(t, "v", x.ctx.Value("k"), "values are inherited")
		cancel(why)
		<-x.ctx.Done()
		requireEnd(t, x, context.Canceled, why)
		x.finish()

		x = table.start(caller, 0)
		<-x.ctx.Done()
		requireEnd(t, x, context.Canceled, why)
		x.finish()
		require.Zero(t, table.size())
	})
	testutil.RunInBubble(t, "ends with its parent exchange", func(t *testing.T) {
		var table exchangeTable
		outer := table.start(t.Context(), time.Second)
		inner := table.start(outer.ctx, time.Hour)
		<-inner.ctx.Done()
		requireEnd(t, inner, context.DeadlineExceeded, jsonrpc.ErrOverdue)
		inner.finish()
		outer.finish()
		require.Zero(t, table.size())
	})
	testutil.RunInBubble(t, "contexts derived from it end with it", func(t *testing.T) {
		var table exchangeTable
		x := table.start(t.Context(), time.Second)
		child, stop := context.WithCancel(x.ctx)
		defer stop()
		<-child.Done()
		requireEnd(t, x, context.DeadlineExceeded, jsonrpc.ErrOverdue)
		err, cause := jsonrpc.ContextEnd(child)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, jsonrpc.ErrOverdue, cause)
		late, stopLate := context.WithCancel(x.ctx)
		defer stopLate()
		<-late.Done()
		x.finish()
	})
	t.Run("unregisters from its caller when finished", func(t *testing.T) {
		var table exchangeTable
		caller := &followedContext{Context: context.Background(), done: make(chan struct{})}
		x := table.start(caller, time.Hour)
		require.Equal(t, 1, caller.afterFuncs)
		x.finish()
		require.Zero(t, caller.afterFuncs)
	})
}

// followedContext counts the functions that are registered to run at its end.
type followedContext struct {
	context.Context
	done       chan struct{}
	afterFuncs int
}

func (c *followedContext) Done() <-chan struct{} { return c.done }

// AfterFunc is the optional method that context.AfterFunc calls.
func (c *followedContext) AfterFunc(func()) (stop func() bool) {
	c.afterFuncs++
	return func() bool { c.afterFuncs--; return true }
}

func TestExchange_detach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table exchangeTable
		caller, cancel := context.WithCancel(context.Background())
		x := table.start(caller, time.Second)
		require.True(t, x.detach())
		x.finish()
		cancel()
		time.Sleep(time.Minute)
		require.NoError(t, x.ctx.Err(), "neither the caller nor the deadline ends a detached exchange")
		table.endAll(errors.New("over"))
		require.Error(t, x.ctx.Err(), "the end of the session ends a detached exchange")
		x.finishDetached()

		var other exchangeTable
		x = other.start(caller, 0)
		synctest.Wait()
		require.False(t, x.detach(), "the caller's context has ended")
		x.finish()
	})
}

// An exchange that has ended stays in the table until it is finished, so that progress
// reported before its answer still reaches the caller.
func TestExchangeTable_progress(t *testing.T) {
	testutil.RunInBubble(t, "until the exchange is finished", func(t *testing.T) {
		var table exchangeTable
		reports := 0
		report := func(mcpvisor.Progress) { reports++ }
		died := table.startRequest(context.Background(), &transport.Request{Progress: report})
		overdue := table.startRequest(context.Background(), &transport.Request{Progress: report, Timeout: time.Second})
		<-overdue.ctx.Done()
		table.endAll(errors.New("the session died"))
		<-died.ctx.Done()
		for _, x := range []*exchange{died, overdue} {
			to, found := table.requests.Progressed(x.id())
			require.True(t, found)
			require.True(t, to.Push(mcpvisor.Progress{}))
			to.Deliver()
			x.finish()
			_, found = table.requests.Progressed(x.id())
			require.False(t, found)
		}
		require.Equal(t, 2, reports)
		require.Zero(t, table.size())
	})
}

// An error without an id fails a request after a second, unless the server shows that it
// works on it.
func TestExchange_failAfterGrace(t *testing.T) {
	for name, row := range map[string]struct {
		then  func(*exchangeTable, *exchange)
		fails bool
	}{
		"nothing follows": {func(*exchangeTable, *exchange) {}, true},
		"progress":        {func(table *exchangeTable, x *exchange) { table.requests.Progressed(x.id()) }, false},
		"a handler":       {func(table *exchangeTable, x *exchange) { table.requests.PauseClocks(x.id())(false) }, false},
		"finished":        {func(_ *exchangeTable, x *exchange) { x.finish() }, false},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			var table exchangeTable
			x := table.startRequest(t.Context(), &transport.Request{Timeout: time.Minute})
			defer x.finish()
			var failed atomic.Bool
			fail := func() { failed.Store(true) }
			require.True(t, x.failAfterGrace(fail))
			require.False(t, x.failAfterGrace(fail), "only the first one counts")
			row.then(&table, x)
			time.Sleep(30 * time.Second)
			require.Equal(t, row.fails, failed.Load())
			if name != "finished" {
				require.NoError(t, x.cause(), "its deadline has not passed")
			}
		})
	}
}

// A server that does not end the response to a POST after its answer occupies a bounded
// number of connections, however many calls follow.
func TestDrain_bounded(t *testing.T) {
	result := func(id json.RawMessage) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, helloResult)
	}
	rows := map[string]func(web *memoryTransport) (sse bool){
		"Streamable HTTP": func(web *memoryTransport) bool {
			web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				startEvents(w)("data: %s\n\n", result(id))
				<-r.Context().Done()
			})
			return false
		},
		"HTTP+SSE": func(web *memoryTransport) bool {
			messages := make(chan string)
			answer := func(text func(json.RawMessage) string) handler {
				return func(_ http.ResponseWriter, r *http.Request, id json.RawMessage) {
					messages <- text(id)
					<-r.Context().Done()
				}
			}
			web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				send := startEvents(w)
				for send("event: endpoint\ndata: /mcp\n\n"); ; {
					select {
					case text := <-messages:
						send("data: %s\n\n", text)
					case <-r.Context().Done():
						return
					}
				}
			})
			web.handle("initialize", answer(func(id json.RawMessage) string {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}}`, id)
			}))
			web.handle("tools/call", answer(result))
			return true
		},
	}
	for name, prepare := range rows {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			web := newMemoryTransport(t)
			spec := web.spec()
			spec.HTTP.SSE = prepare(web)
			s := openSession(t, spec)
			time.Sleep(2 * drainTimeout) // so that the responses of the handshake are closed
			before := s.exchanger.table.size()
			for range 3 * maxDrains {
				requireServing(t, s)
			}
			synctest.Wait()
			require.Equal(t, before+maxDrains, s.exchanger.table.size())
			time.Sleep(2 * drainTimeout)
			synctest.Wait()
			require.Equal(t, before, s.exchanger.table.size())
			require.Zero(t, s.exchanger.draining.Load())
			require.Len(t, web.unclosed(), before, "the event stream of HTTP+SSE")
			require.Nil(t, s.Cause())
		})
	}
}

// Large replies share the buffer of the server: replies that do not fit wait until another
// one is released. A canceled call releases its share, and at the end nothing is reserved.
func TestBuffer(t *testing.T) {
	const size, calls = 1 << 20, 8
	for name, events := range map[string]bool{"bodies": false, "events": true} {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				if events {
					startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, transporttest.Filler(size))
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, transporttest.Filler(size))
			})
			spec := specFor(web.URL)
			spec.Limits.MaxBufferBytes = size / 2
			s := openSession(t, spec)
			buffer := s.exchanger.table.buffer

			one := new(budget.Share)
			require.NoError(t, (<-transporttest.StartRequest(t.Context(), s, one)).Err)
			require.Greater(t, buffer.Used(), int64(size))
			ctx, cancel := context.WithCancel(t.Context())
			canceled := transporttest.StartRequest(ctx, s, nil)
			require.Eventually(t, func() bool { return buffer.Waiting() == 1 }, transporttest.Patience, transporttest.TimeStep)
			cancel()
			transporttest.RequireFailed(t, canceled, mcpvisor.ErrCanceled)
			require.Eventually(t, func() bool { return buffer.Waiting() == 0 }, transporttest.Patience, transporttest.TimeStep)

			var all []<-chan transporttest.Answered
			for range calls {
				all = append(all, transporttest.StartRequest(t.Context(), s, nil))
			}
			require.Eventually(t, func() bool { return buffer.Waiting() == calls }, transporttest.Patience, transporttest.TimeStep)
			require.Less(t, buffer.Used(), int64(3*size), "waiting replies occupy little memory")
			one.Release()
			for _, done := range all {
				got := <-done
				require.NoError(t, got.Err)
				require.True(t, bytes.Equal(got.Result, []byte(transporttest.Filler(size))), "the result is whole")
			}
			require.Zero(t, buffer.Used(), "everything is released")
		})
	}
}

// Large events on the stream of HTTP+SSE share the buffer of the server, too. The end of the
// session ends the wait for room; the call fails by that end, and not for lack of room.
func TestBuffer_SSE(t *testing.T) {
	for name, ends := range map[string]bool{"room becomes free": false, "the session ends": true} {
		t.Run(name, func(t *testing.T) {
			web := newSSEServer(t)
			web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.WriteHeader(http.StatusAccepted)
				web.send("%s", `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+transporttest.Filler(2<<20)+`}`)
			})
			spec := sseSpec(web)
			spec.Limits.MaxBufferBytes = 1 << 20
			s := openSession(t, spec)
			buffer := s.exchanger.table.buffer
			one := new(budget.Share)
			require.NoError(t, (<-transporttest.StartRequest(t.Context(), s, one)).Err)
			require.Positive(t, buffer.Used())
			two := transporttest.StartRequest(t.Context(), s, nil)
			require.Eventually(t, func() bool { return buffer.Waiting() == 1 }, transporttest.Patience, transporttest.TimeStep)
			if ends {
				s.Abort(transporttest.ErrGivenUp)
				transporttest.RequireFailed(t, two, mcpvisor.ErrClosed)
				one.Release()
			} else {
				one.Release()
				require.NoError(t, (<-two).Err)
			}
			require.Eventually(t, func() bool { return buffer.Used() == 0 }, transporttest.Patience, transporttest.TimeStep)
		})
	}
}

// The memory of an event that a broken stream cut short is released before the stream is
// resumed, because resuming can take minutes.
func TestBuffer_releasedBeforeResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Int64
		used.Store(-1)
		var s *session
		web, spec, _ := newResumingServer(t, "", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			used.Store(s.exchanger.table.buffer.Used())
			resumeCall(w, r, id)
		})
		opened := web.replies["tools/call"]
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			opened(w, r, id)
			startEvents(w)("id: a\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"a\":\"%s", id, strings.Repeat("x", 300<<10))
			panic(http.ErrAbortHandler)
		})
		s = openSession(t, spec)
		_, err := s.Request(t.Context(), transporttest.ToolCall)
		require.NoError(t, err)
		require.Zero(t, used.Load(), "while the stream is resumed")
		require.Zero(t, s.exchanger.table.buffer.Used())
	})
}

// The cause of the caller's context is not interpreted as a connection error of this
// server, although the session is connecting.
func TestRequest_foreignCancelCauseWhileConnecting(t *testing.T) {
	for name, cause := range transporttest.ForeignCauses {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			dialling := make(chan struct{}, 1)
			hold := make(chan struct{}, 1)
			spec := specFor(web.URL)
			spec.HTTP.Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					select {
					case <-hold:
						dialling <- struct{}{}
						<-ctx.Done()
						return nil, ctx.Err()
					default:
						return new(net.Dialer).DialContext(ctx, network, addr)
					}
				}}}
			s := openSession(t, spec)
			hold <- struct{}{}
			ctx, cancel := context.WithCancelCause(context.Background())
			failed := make(chan error, 1)
			go func() { _, err := s.Request(ctx, transporttest.ToolCall); failed <- err }()
			<-dialling
			cancel(cause)
			transporttest.RequireCanceled(t, <-failed, context.Canceled, cause, mcpvisor.OutcomeNotSent)
			requireServing(t, s)
		})
	}
}

// The deadline of the caller's context is a cancellation; Request.Timeout is a timeout.
func TestRequest_deadlineOfCallerOrSession(t *testing.T) {
	web := newHTTPServer(t)
	web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
	s := openSession(t, specFor(web.URL))
	call := transporttest.TinyCall("any")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Request(ctx, call)
	transporttest.RequireCanceled(t, err, context.DeadlineExceeded, nil, mcpvisor.OutcomeUnknown)

	why := fmt.Errorf("time budget: %w", mcpvisor.ErrTimeout)
	ctx, stop := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, why)
	defer stop()
	_, err = s.Request(ctx, call)
	transporttest.RequireCanceled(t, err, context.DeadlineExceeded, why, mcpvisor.OutcomeUnknown)
	_, err = s.Request(ctx, call)
	transporttest.RequireCanceled(t, err, context.DeadlineExceeded, why, mcpvisor.OutcomeNotSent)

	call.Timeout = 50 * time.Millisecond
	_, err = s.Request(context.Background(), call)
	e := testutil.AsError[*mcpvisor.Error](t, err)
	require.Equal(t, mcpvisor.ErrTimeout, e.Kind)
	require.NotErrorIs(t, err, mcpvisor.ErrCanceled)
}

// A cancellation contains its reason. A server that does not accept the notification
// delays neither the caller nor the release of the session.
func TestNotifyCancelled_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		web.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
		returned := make(chan time.Time, 2)
		web.handle("notifications/cancelled", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			web.hang(r)
			returned <- time.Now()
		})
		s := openSession(t, web.spec())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := s.Request(ctx, transporttest.ToolCall)
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, time.Second+notifyTimeout, (<-returned).Sub(began))

		late := transporttest.ToolCall
		late.Timeout = time.Second
		_, err = s.Request(t.Context(), late)
		require.ErrorIs(t, err, mcpvisor.ErrTimeout)
		synctest.Wait()
		ended := time.Now()
		s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		<-s.Released()
		require.Equal(t, ended, time.Now(), "the release waited for the notification")
		for _, notice := range web.requests("notifications/cancelled") {
			require.Contains(t, notice.body, `"reason":"timed out"`)
			require.Contains(t, notice.body, `"requestId":`)
		}
		require.Len(t, web.requests("notifications/cancelled"), 2)
	})
}

// Progress arrives on the event stream of the answer or on the standalone stream, in order.
func TestProgress(t *testing.T) {
	const steps = 50
	note := func(token json.RawMessage, step int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, step)
	}
	token := func(id json.RawMessage) json.RawMessage { return id } // the progress token is the id
	callForReports := func(t *testing.T, s *httpServer) []mcpvisor.Progress {
		session := openSession(t, specFor(s.URL))
		var reports []mcpvisor.Progress
		raw, err := session.Request(t.Context(), transport.Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: transporttest.Patience, Progress: func(r mcpvisor.Progress) { reports = append(reports, r) }})
		require.NoError(t, err)
		require.JSONEq(t, `{"done":true}`, string(raw))
		return reports
	}
	t.Run("on the stream of the answer", func(t *testing.T) {
		s := newHTTPServer(t)
		s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "text/event-stream")
			for step := range steps {
				_, _ = fmt.Fprintf(w, "data: %s\n\n", note(token(id), step))
			}
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"done\":true}}\n\n", id)
		})
		reports := callForReports(t, s)
		require.Len(t, reports, steps)
		for step, r := range reports {
			require.InDelta(t, step, r.Progress, 0)
		}
	})
	t.Run("on the standalone stream", func(t *testing.T) {
		s := newHTTPServer(t)
		notes, delivered := make(chan string, steps), make(chan struct{})
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
			case <-delivered:
			case <-r.Context().Done():
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"done":true}}`, id)
		})
		session := openSession(t, specFor(s.URL))
		reports := 0
		_, err := session.Request(t.Context(), transport.Request{Method: "tools/call", Target: "x", Params: json.RawMessage(`{"name":"x"}`),
			Track: true, Timeout: transporttest.Patience, Progress: func(mcpvisor.Progress) {
				if reports++; reports == steps {
					close(delivered) // the server answers after this
				}
			}})
		require.NoError(t, err)
	})
}

// If the Progress function of the caller panics, the panic reaches the caller, the request
// is canceled, and the exchange is removed from the table.
func TestProgress_callbackPanics(t *testing.T) {
	web := newHTTPServer(t)
	canceled := make(chan struct{})
	web.handle("notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		w.WriteHeader(http.StatusAccepted)
		close(canceled)
	})
	web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		startEvents(w)("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1}}\n\n", id)
		web.hang(r)
	})
	s := openSession(t, specFor(web.URL))
	r := transporttest.ToolCall
	r.Track, r.Progress = true, func(mcpvisor.Progress) { panic("panic of the host") }
	require.PanicsWithValue(t, "panic of the host", func() { _, _ = s.Request(t.Context(), r) })
	transporttest.RequireClosed(t, canceled, "the server got no cancellation")
	require.Eventually(t, func() bool {
		s.exchanger.table.requests.Mu.Lock()
		defer s.exchanger.table.requests.Mu.Unlock()
		for e := range s.exchanger.table.requests.Open.All() {
			if e.ID > 0 {
				return false
			}
		}
		return true
	}, transporttest.Patience, transporttest.TimeStep)
}
