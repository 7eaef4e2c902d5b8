package peer

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/certs"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// localFunc is a Caller that executes every call by a function, which gets the target.
type localFunc func(ctx context.Context, target string, args []byte, opts []facade.CallOption) (json.RawMessage, error)

func (f localFunc) CallToolRaw(ctx context.Context, tool string, args json.RawMessage, opts ...facade.CallOption) (json.RawMessage, error) {
	return f(ctx, tool, args, opts)
}

func (f localFunc) ReadResourceRaw(ctx context.Context, _, uri string, opts ...facade.CallOption) (json.RawMessage, error) {
	return f(ctx, uri, nil, opts)
}

func (f localFunc) GetPromptRaw(ctx context.Context, prompt string, args map[string]string, opts ...facade.CallOption) (json.RawMessage, error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return f(ctx, prompt, encoded, opts)
}

func (f localFunc) CompleteRaw(ctx context.Context, _ string, r facade.CompletionRequest, opts ...facade.CallOption) (json.RawMessage, error) {
	encoded, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return f(ctx, "", encoded, opts)
}

// echo answers with the arguments.
var echo = localFunc(func(_ context.Context, _ string, args []byte, _ []facade.CallOption) (json.RawMessage, error) {
	return args, nil
})

func always(string, uint64) error { return nil }

// newAuthority and identity make the certificates of a test.
func newAuthority(t testing.TB) *certs.Authority {
	t.Helper()
	a, err := certs.NewAuthority("test")
	require.NoError(t, err)
	return a
}

func identity(t testing.TB, a *certs.Authority, node string) Identity {
	t.Helper()
	cert, err := a.IssueTLS(node)
	require.NoError(t, err)
	return Identity{Certificate: cert, Authorities: a.Pool()}
}

// serve starts node b, and returns its address.
func serve(t testing.TB, config ServerConfig) (*Server, string) {
	t.Helper()
	if config.Check == nil {
		config.Check = always
	}
	s, err := NewServer(config)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		require.NoError(t, <-served)
	})
	return s, l.Addr().String()
}

// connect makes a client of node a for node b, and waits until it is connected.
func connect(t testing.TB, config ClientConfig) *Client {
	t.Helper()
	config.Node = "b"
	c, err := NewClient(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(t, c.WaitReachable(ctx))
	return c
}

// pair connects node a to node b, which executes calls by local.
func pair(t testing.TB, local Caller) *Client {
	t.Helper()
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: local})
	return connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
}

// answering reports whether the answer to a call has begun to come.
func answering(c *Client) bool {
	l := c.link.Load()
	if l == nil {
		return false
	}
	for _, s := range l.streams {
		s.mu.Lock()
		begun := slices.ContainsFunc(slices.Collect(maps.Values(s.pending)), (*pending).hasBegun)
		s.mu.Unlock()
		if begun {
			return true
		}
	}
	return false
}

// within returns a context that no test should reach the end of.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), 30*time.Second, errors.New("the test takes too long"))
	t.Cleanup(cancel)
	return ctx
}
