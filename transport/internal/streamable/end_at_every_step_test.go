package streamable

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// A session may end at any moment of its life, and from then on nothing may answer: it is
// released within Timeouts.Shutdown. The test ends it at each step in turn. A step is the
// beginning of a request, its response, and each read of a body.
func TestEnd_atEveryStep(t *testing.T) {
	for name, prepare := range map[string]func(*memoryTransport, *mcpvisor.ServerSpec){
		"no event stream": func(*memoryTransport, *mcpvisor.ServerSpec) {},
		"event stream": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handle("GET", func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				startEvents(w)
				web.hang(r)
			})
		},
		"event stream is slow": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handle("GET", func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { web.hang(r) })
		},
		"modern": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handle("server/discover", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				writeResult(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`)
			})
		},
		"unknown version": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handle("initialize", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Mcp-Session-Id", "session-1")
				writeResult(w, id, `{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"odd","version":"1"}}`)
			})
		},
		"redirects": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/real" {
					http.Redirect(w, r, "/real", http.StatusTemporaryRedirect)
					return
				}
				web.ServeHTTP(w, r)
			})
		},
		"HTTP+SSE": func(web *memoryTransport, _ *mcpvisor.ServerSpec) {
			web.handler = &sseServer{testServer: web.testServer, endpoint: "/messages?sessionId=" + sseSecret}
		},
		"OAuth": func(web *memoryTransport, spec *mcpvisor.ServerSpec) {
			spec.HTTP.Auth = &oauth.Config{Grant: oauth.GrantClientCredentials, ClientID: "me", ClientSecret: "very-secret"}
			web.handler = requireToken(web)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for step := int32(1); endAtStep(t, prepare, step); step++ {
			}
		})
	}
}

// endAtStep opens a session, makes a call, and ends the session at a step; at the end of
// the call if there are fewer steps. It reports whether there are more.
func endAtStep(t *testing.T, prepare func(*memoryTransport, *mcpvisor.ServerSpec), step int32) (more bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		web := newMemoryTransport(t)
		spec := web.spec()
		prepare(web, &spec)
		steps := &stepTransport{base: web, at: step, free: make(chan struct{})}
		spec.HTTP.Client.Transport = steps
		spec.Timeouts.Shutdown = time.Second
		s := newTestDialer(spec).NewSession().(*session)
		var began atomic.Pointer[time.Time] // a goroutine that is left behind may set it
		steps.end = func() {
			now := time.Now()
			began.Store(&now)
			s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
		}
		if s.Open(t.Context()) == nil {
			_, _ = s.Request(t.Context(), transporttest.ToolCall)
		}
		synctest.Wait()
		if more = steps.count.Load() >= step; !more {
			steps.freeze()
		}
		<-s.Released()
		require.LessOrEqual(t, time.Since(*began.Load()), spec.Timeouts.Shutdown, "the session ended at step %d", step)
		close(steps.free)
	})
	return more
}

// A session may end before or after each message of the go-sdk: Connect does not wait.
func TestEnd_betweenMessagesOfTheSDK(t *testing.T) {
	for step, more := int32(1), true; more; step++ {
		synctest.Test(t, func(t *testing.T) {
			web := newMemoryTransport(t)
			s := newTestDialer(web.spec()).NewSession().(*session)
			var count int32
			conn := hookedConn{jsonrpc.NewSDKConn(s.negotiation.sendRequest, s.negotiation.sendNotification), func() {
				if count++; count == step {
					s.Abort(transporttest.ErrGivenUp)
					synctest.Wait() // until the session starts no tasks
				}
			}}
			began := time.Now()
			client, err := mcp.NewClient(transporttest.ClientInfo, nil).Connect(t.Context(), conn, nil)
			require.Zero(t, time.Since(began), "the session ended at step %d", step)
			if err == nil {
				_ = conn.Close()
				_ = client.Close()
			}
			more = count >= step
			s.Abort(transporttest.ErrGivenUp)
			<-s.Released()
		})
	}
}

// hookedConn calls a function before and after each Write.
type hookedConn struct {
	*jsonrpc.SDKConn
	hook func()
}

func (c hookedConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c hookedConn) Write(ctx context.Context, m sdkrpc.Message) error {
	c.hook()
	defer c.hook()
	return c.SDKConn.Write(ctx, m)
}

// stepTransport is a RoundTripper that calls end at a step of its requests. From then on no
// request gets a response, and no body a byte.
type stepTransport struct {
	base   http.RoundTripper
	at     int32
	end    func()
	free   chan struct{} // closed: nothing blocks
	count  atomic.Int32  // steps
	frozen atomic.Bool
}

// step counts a step.
func (s *stepTransport) step() {
	if s.count.Add(1) == s.at {
		s.freeze()
	}
}

func (s *stepTransport) freeze() {
	s.frozen.Store(true)
	s.end()
}

// hang blocks while nothing answers.
func (s *stepTransport) hang(ctx context.Context) error {
	if !s.frozen.Load() {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-s.free:
	}
	return io.ErrUnexpectedEOF
}

// RoundTrip implements http.RoundTripper.
func (s *stepTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	s.step()
	if err := s.hang(req.Context()); err != nil {
		return nil, err
	}
	resp, err := s.base.RoundTrip(req)
	s.step()
	if err == nil {
		resp.Body = &stepBody{resp.Body, s, req.Context()}
	}
	return resp, err
}

// stepBody is the body of a response.
type stepBody struct {
	io.ReadCloser
	steps *stepTransport
	ctx   context.Context //nolint:containedctx // of the request
}

// Read implements io.Reader.
func (b *stepBody) Read(p []byte) (int, error) {
	if err := b.steps.hang(b.ctx); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.steps.step()
	return n, err
}

// requireToken serves web to those who have a token, with the authorization server that
// issues it.
func requireToken(web *memoryTransport) http.Handler {
	const origin = "http://wireless.invalid"
	mux := http.NewServeMux()
	document := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
		})
	}
	document("/.well-known/oauth-protected-resource/mcp", `{"resource":"`+origin+`/mcp","authorization_servers":["`+origin+`"]}`)
	document("/.well-known/oauth-authorization-server", `{"issuer":"`+origin+`","authorization_endpoint":"`+origin+`/authorize","token_endpoint":"`+origin+`/token","response_types_supported":["code"]}`)
	document("/token", `{"access_token":"a-token-of-the-server","token_type":"Bearer","expires_in":3600}`)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		web.ServeHTTP(w, r)
	})
	return mux
}
