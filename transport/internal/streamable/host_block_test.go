package streamable

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// blockingTripper is a RoundTripper of the application. While on is set, its POSTs ignore
// their context in the way that how implements.
type blockingTripper struct {
	http.RoundTripper
	on   atomic.Bool
	free chan struct{} // closed to let blocked requests continue
	how  func(s *blockingTripper, r *http.Request) (*http.Response, error)
}

func (s *blockingTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.on.Load() && r.Method == http.MethodPost {
		return s.how(s, r)
	}
	return s.RoundTripper.RoundTrip(r)
}

// hostBody is a response body that the application's RoundTripper returns.
type hostBody struct {
	io.Reader
	close func() error
}

func (b hostBody) Close() error { return b.close() }

// readFunc is a function that implements io.Reader.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// replyWith makes a response with this body.
func replyWith(r *http.Request, body io.ReadCloser) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r}, nil
}

// blockingWays are the ways in which a blockingTripper ignores the context.
var blockingWays = map[string]func(s *blockingTripper, r *http.Request) (*http.Response, error){
	"round_trip": func(s *blockingTripper, _ *http.Request) (*http.Response, error) {
		<-s.free
		return nil, errors.New("late")
	},
	"late_response": func(s *blockingTripper, r *http.Request) (*http.Response, error) {
		<-s.free
		return replyWith(r, http.NoBody)
	},
	"read": func(s *blockingTripper, r *http.Request) (*http.Response, error) {
		return replyWith(r, hostBody{readFunc(func([]byte) (int, error) { <-s.free; return 0, io.EOF }), func() error { return nil }})
	},
	"read_and_close": func(s *blockingTripper, r *http.Request) (*http.Response, error) {
		return replyWith(r, hostBody{readFunc(func([]byte) (int, error) { <-s.free; return 0, io.EOF }), func() error { <-s.free; return nil }})
	},
}

// A RoundTripper that ignores its context delays neither a call beyond its context and its
// timeouts, nor the release of the session. SessionInfo counts the requests that it has
// not returned.
func TestHostRoundTripper_blocks(t *testing.T) {
	for name, how := range blockingWays {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				host := &blockingTripper{RoundTripper: web, free: make(chan struct{}), how: how}
				spec := web.spec()
				spec.HTTP.Client = &http.Client{Transport: host}
				spec.Timeouts.Shutdown = 2 * time.Second
				s := newTestDialer(spec).NewSession().(*session)
				require.NoError(t, s.Open(t.Context()))
				requireServing(t, s)
				host.on.Store(true)

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err := s.Request(ctx, transporttest.ToolCall)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Second, time.Since(began))
				require.Equal(t, 1, s.Info().AbandonedRequests)

				r := transporttest.ToolCall
				r.TotalTimeout = 3 * time.Second
				began = time.Now()
				_, err = s.Request(t.Context(), r)
				require.ErrorIs(t, err, mcpvisor.ErrTimeout)
				require.Equal(t, 3*time.Second, time.Since(began))
				var e *mcpvisor.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
				synctest.Wait()
				require.GreaterOrEqual(t, s.Info().AbandonedRequests, 2)

				pending := make(chan error, 1)
				go func() { _, err := s.Request(context.Background(), transporttest.ToolCall); pending <- err }()
				synctest.Wait()
				began = time.Now()
				s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
				require.Error(t, <-pending)
				<-s.Released()
				require.LessOrEqual(t, time.Since(began), 3*spec.Timeouts.Shutdown)

				next := s.dialer.NewSession().(*session)
				require.GreaterOrEqual(t, next.Info().AbandonedRequests, 3, "the count outlives the session")
				close(host.free)
				synctest.Wait()
				require.Zero(t, next.Info().AbandonedRequests)
				require.Empty(t, web.unclosed())
			})
		})
	}
}

// The number of requests that a RoundTripper does not return is bounded. Further calls
// fail as not sent, until it returns.
func TestHostRoundTripper_blocksForever(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		host := &blockingTripper{RoundTripper: web, free: make(chan struct{}), how: blockingWays["round_trip"]}
		spec := web.spec()
		spec.HTTP.Client = &http.Client{Transport: host}
		s := openSession(t, spec)
		host.on.Store(true)
		cancelCalls := func(times int) int {
			for range times {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				_, err := s.Request(ctx, transporttest.ToolCall)
				require.Error(t, err)
				cancel()
			}
			time.Sleep(time.Minute) // until the notifications of the session have ended, too
			return s.Info().AbandonedRequests
		}
		n := cancelCalls(300)
		require.GreaterOrEqual(t, n, 256)
		require.Equal(t, n, cancelCalls(100))
		_, err := s.Request(t.Context(), transporttest.ToolCall)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		require.ErrorContains(t, err, "it must return when the context of a request ends")
		waits := make(chan error, 1)
		go func() { _, err := s.Request(t.Context(), transporttest.ToolCall); waits <- err }()
		synctest.Wait()
		host.on.Store(false)
		close(host.free)
		require.NoError(t, <-waits, "a request waits a moment for other requests to return")
		requireServing(t, s)
	})
}

// Functions of the application that get no context, or ignore it, delay neither a call nor
// the release.
func TestHostClient_blocks(t *testing.T) {
	for name, prepare := range map[string]func(c *http.Client, now *atomic.Bool, free chan struct{}){
		"proxy": func(c *http.Client, now *atomic.Bool, free chan struct{}) {
			c.Transport = &http.Transport{DisableKeepAlives: true, Proxy: func(*http.Request) (*url.URL, error) {
				if now.Load() {
					<-free
				}
				return nil, nil
			}}
		},
		"dial": func(c *http.Client, now *atomic.Bool, free chan struct{}) {
			c.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if now.Load() {
					<-free
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}
		},
		"jar": func(c *http.Client, now *atomic.Bool, free chan struct{}) { c.Jar = blockingJar{now, free} },
	} {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			free := make(chan struct{})
			t.Cleanup(func() { close(free) })
			var now atomic.Bool
			spec := specFor(web.URL)
			spec.HTTP.Client = &http.Client{}
			prepare(spec.HTTP.Client, &now, free)
			spec.Timeouts.Shutdown = time.Second
			s := openSession(t, spec)
			requireServing(t, s)
			now.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := s.Request(ctx, transporttest.ToolCall)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
			transporttest.RequireClosed(t, s.Released(), "session is not released")
		})
	}
}

// blockingJar is a cookie jar that blocks while now is set, until free is closed.
type blockingJar struct {
	now  *atomic.Bool
	free chan struct{}
}

func (j blockingJar) Cookies(*url.URL) []*http.Cookie {
	if j.now.Load() {
		<-j.free
	}
	return nil
}

func (j blockingJar) SetCookies(*url.URL, []*http.Cookie) {}
