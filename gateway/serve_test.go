package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// served is a peer of a client behind a stream.
type served struct {
	client  *facade.Client
	session *mcp.ClientSession
	stream  net.Conn // of the peer
	cancel  context.CancelFunc
	ended   chan error // what Serve returns
}

// serveStream serves a client with the server "a" on a stream, and connects a session of the go-sdk to it.
func serveStream(t *testing.T, version string) served {
	t.Helper()
	c := newClient(t, fixture("a", mcptest.Script{}))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	near, far := net.Pipe()
	s := served{client: c, stream: far, cancel: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- Serve(ctx, Transport(c), &mcp.IOTransport{Reader: near, Writer: near}) }()
	s.session = connect(t, &mcp.IOTransport{Reader: far, Writer: far}, version, nil)
	return s
}

// hang starts a call that does not end by itself, and returns its end.
func (s served) hang(t *testing.T) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := s.session.CallTool(context.Background(), &mcp.CallToolParams{Name: "mcp__a__hang"})
		ended <- err
	}()
	until(t, func() bool { return len(s.client.CallsInFlight()) == 1 })
	return ended
}

// A peer behind a stream gets what a session in this process gets.
func TestServe(t *testing.T) {
	inBothEras(t, func(t *testing.T, version string) {
		s := serveStream(t, version)
		listed, err := s.session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, listed.Tools, len(s.client.Tools()))
		r, err := s.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "mcp__a__echo", Arguments: map[string]any{"text": "hi"}})
		require.Equal(t, "hi", text(t, r, err))
		hanging := s.hang(t)
		require.NoError(t, s.stream.Close()) // without a word
		require.NoError(t, receive(t, s.ended))
		require.Error(t, receive(t, hanging))
		until(t, func() bool { return len(s.client.CallsInFlight()) == 0 })
	})
}

// When the client is closed, the peer gets its answers, and then the end of the stream.
func TestServe_client_is_closed(t *testing.T) {
	s := serveStream(t, "2026-07-28")
	hanging := s.hang(t)
	require.NoError(t, s.client.Close(t.Context()))
	require.NoError(t, receive(t, hanging), "a result with IsError")
	require.NoError(t, receive(t, s.ended))
	_ = s.session.Wait()
}

func TestServe_context_ends(t *testing.T) {
	s := serveStream(t, "2025-11-25")
	hanging := s.hang(t)
	s.cancel()
	require.Equal(t, context.Canceled, receive(t, s.ended))
	require.Error(t, receive(t, hanging))
}

// broken is a transport that does not connect.
type broken struct{}

func (broken) Connect(context.Context) (mcp.Connection, error) { return nil, errors.New("no line") }

func TestServe_errors(t *testing.T) {
	c := newClient(t)
	require.EqualError(t, Serve(t.Context(), Transport(c), broken{}), "gateway: connect to the peer: no line")
	in, out := io.Pipe()
	require.EqualError(t, Serve(t.Context(), broken{}, &mcp.IOTransport{Reader: in, Writer: out}), "gateway: open the session: no line")
	_, err := out.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe, "the peer is closed")

	err = Serve(t.Context(), Transport(c), &mcp.IOTransport{Reader: io.NopCloser(iotest.ErrReader(errors.New("broken line"))), Writer: out})
	require.EqualError(t, err, "gateway: pass a message on: broken line")
}
