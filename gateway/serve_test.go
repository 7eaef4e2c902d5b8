package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
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

// line is a peer behind a stream that writes and reads JSON.
type line struct {
	t       *testing.T
	stream  net.Conn
	answers *json.Decoder
	ended   chan error // what Serve returns
}

// serveLine serves a session of a transport on a stream.
func serveLine(t *testing.T, transport mcp.Transport, wrap func(mcp.Transport) mcp.Transport) line {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _ = far.Close() })
	l := line{t, far, json.NewDecoder(far), make(chan error, 1)}
	go func() { l.ended <- Serve(t.Context(), transport, wrap(&mcp.IOTransport{Reader: near, Writer: near})) }()
	return l
}

// asIs is a transport that is not wrapped.
func asIs(transport mcp.Transport) mcp.Transport { return transport }

// send writes a message, or several, in one line.
func (l line) send(text string) {
	l.t.Helper()
	require.NoError(l.t, write(l.stream, text+"\n"))
}

// receive reads a message that must be the answer with that id, and returns it.
func (l line) receive(id int) (answer struct {
	ID     int
	Error  *struct{ Message string }
	Result json.RawMessage
}) {
	l.t.Helper()
	if l.stream != nil {
		require.NoError(l.t, l.stream.SetReadDeadline(time.Now().Add(patience)))
	}
	require.NoError(l.t, l.answers.Decode(&answer))
	require.Equal(l.t, id, answer.ID)
	return answer
}

// The answers of a batch are sent one by one, and the session holds none of them for others that
// never come: neither a canceled request nor a notification is answered.
func TestServe_batch_with_canceled_calls(t *testing.T) {
	c := newClient(t, fixture("a", mcptest.Script{}))
	transport := Transport(c, WithLimits(hostileLimits))
	l := serveLine(t, transport, asIs)
	heap := heapBytes()
	for i := 1; i < 50; i += 2 {
		l.send(fmt.Sprintf(`[{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a/big","arguments":{"bytes":1000000}}},`+
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a/hang"}}]`, i, i+1))
		require.Greater(t, len(l.receive(i).Result), 1_000_000)
		l.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i+1))
	}
	until(t, func() bool { return len(c.CallsInFlight()) == 0 })
	require.Less(t, heapBytes()-heap, 8<<20)
	for id := 1000; id < 1010; id++ {
		l.send(fmt.Sprintf(`[{"jsonrpc":"2.0","id":%d,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]`, id))
		require.JSONEq(t, "{}", string(l.receive(id).Result))
	}
	require.NoError(t, l.stream.Close())
	require.NoError(t, receive(t, l.ended))
}

// A message of a batch that cannot be read is answered, with its id if that can be read. The others are served.
func TestServe_bad_messages_of_a_batch(t *testing.T) {
	l := serveLine(t, Transport(newClient(t)), asIs)
	l.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":7},7,{"jsonrpc":"2.0","id":"3","method":"ping"}]`)
	answers := map[string]string{}
	for range 4 {
		require.NoError(t, l.stream.SetReadDeadline(time.Now().Add(patience)))
		var answer struct {
			ID     json.RawMessage
			Error  struct{ Message string }
			Result json.RawMessage
		}
		require.NoError(t, l.answers.Decode(&answer))
		answers[string(answer.ID)] = answer.Error.Message + string(answer.Result)
	}
	const wrong = "the body is no message of JSON-RPC 2.0: "
	require.Equal(t, map[string]string{"1": "{}", "2": wrong + "the method must be a text", "null": wrong + "it must be an object", `"3"`: "{}"}, answers)
	// More messages than a batch may have are refused at once.
	l.send("[" + strings.Repeat("7,", message.MaxBatch) + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	require.Equal(t, "the batch has more than 1000 messages", l.receive(0).Error.Message)
	l.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	l.receive(4)
	require.NoError(t, l.stream.Close())
	require.NoError(t, receive(t, l.ended))
}

// A batch is split whatever leads to the stream.
func TestServe_batch_of_each_transport(t *testing.T) {
	c := newClient(t)
	const batch = `[ {"jsonrpc":"2.0","id":1,"method":"ping"} , {"jsonrpc":"2.0","method":"notifications/initialized"} ]`
	t.Run("logged", func(t *testing.T) {
		var log bytes.Buffer
		l := serveLine(t, Transport(c), func(peer mcp.Transport) mcp.Transport {
			return &mcp.LoggingTransport{Transport: peer, Writer: &log}
		})
		l.send(batch)
		l.receive(1)
		require.NoError(t, l.stream.Close())
		require.NoError(t, receive(t, l.ended))
		require.Contains(t, log.String(), `read: {"jsonrpc":"2.0","method":"notifications/initialized"}`)
	})
	t.Run("no stream", func(t *testing.T) { // its transport splits batches
		near, far := mcp.NewInMemoryTransports()
		ended := make(chan error, 1)
		go func() { ended <- Serve(t.Context(), Transport(c), near) }()
		s := connect(t, far, "2025-11-25", nil)
		require.NoError(t, s.Ping(t.Context(), nil))
		require.NoError(t, s.Close())
		require.NoError(t, receive(t, ended))
	})
	t.Run("stdio", func(t *testing.T) {
		stdin, toPeer, err := os.Pipe()
		require.NoError(t, err)
		fromPeer, stdout, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, fromPeer.SetDeadline(time.Now().Add(patience)))
		realIn, realOut := os.Stdin, os.Stdout
		defer func() { os.Stdin, os.Stdout = realIn, realOut }()
		os.Stdin, os.Stdout = stdin, stdout
		ended := make(chan error, 1)
		go func() { ended <- Serve(t.Context(), Transport(c), &mcp.StdioTransport{MaxLineLength: 1 << 10}) }()
		_, err = io.WriteString(toPeer, batch+"\n")
		require.NoError(t, err)
		line := line{t: t, answers: json.NewDecoder(fromPeer)}
		line.receive(1)
		_, err = io.WriteString(toPeer, `{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"`+strings.Repeat("x", 2<<10)+`"}}`+"\n")
		require.NoError(t, err)
		var refusal struct{ Error struct{ Message string } }
		require.NoError(t, line.answers.Decode(&refusal))
		require.Equal(t, "the message is longer than 1024 bytes", refusal.Error.Message)
		_, err = io.WriteString(toPeer, `{"jsonrpc":"2.0","id":3,"method":"ping"}`+"\n")
		require.NoError(t, err)
		line.receive(3)
		require.NoError(t, toPeer.Close())
		require.NoError(t, receive(t, ended))
		_, err = stdout.WriteString("open")
		require.NoError(t, err, "the standard output stays open")
		for _, file := range []*os.File{fromPeer, stdout} {
			require.NoError(t, file.Close())
		}
	})
}
