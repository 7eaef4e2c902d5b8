package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/stdio/reader"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// newPartner makes a partner: the server at the other end of a session, which the test
// plays.
func newPartner(t *testing.T, modern bool) *transporttest.Partner {
	return transporttest.NewPartner(t, modern, NewDialer)
}

// newPipeHandler makes the handler that serves the requests of a server.
func newPipeHandler() *inbound.Handler {
	return inbound.NewHandlerPool("s", transport.Options{Handlers: transport.Handlers{ElicitForm: transporttest.AcceptAtOnce}, Logger: zerolog.Nop()}).NewHandler(jsonrpc.NewLifetime())
}

// peer is a connection and the server at its other end, which the test plays.
type peer struct {
	*conn
	t   *testing.T
	in  *bufio.Reader
	out io.Writer
}

// memoryPipe makes a pipe without a buffer: a write waits for its reader.
func memoryPipe() (io.ReadCloser, io.WriteCloser, error) {
	r, w := io.Pipe()
	return r, w, nil
}

// osPipe makes a pipe of the operating system, as a process has. It holds some 64 KiB.
func osPipe() (io.ReadCloser, io.WriteCloser, error) {
	r, w, err := os.Pipe()
	return r, w, err
}

// newPeer makes a connection over a pair of pipes and ends it with the test.
func newPeer(t *testing.T, pipe func() (io.ReadCloser, io.WriteCloser, error), limit int) *peer {
	t.Helper()
	return newPeerWith(t, pipe, reader.Options{MaxLine: limit})
}

func newPeerWith(t *testing.T, pipe func() (io.ReadCloser, io.WriteCloser, error), o reader.Options) *peer {
	t.Helper()
	serverIn, clientOut, err := pipe()
	require.NoError(t, err)
	clientIn, serverOut, err := pipe()
	require.NoError(t, err)
	var loops sync.WaitGroup
	o.Go = loops.Go
	p := &peer{conn: newConn(jsonrpc.NewLifetime(), clientIn, clientOut, o), t: t, in: bufio.NewReader(serverIn), out: serverOut}
	p.goWrite = loops.Go
	p.reader.Start()
	p.reader.AllowIdle()
	t.Cleanup(func() {
		p.reader.Stop()
		p.end(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test ends"})
		for _, end := range []io.Closer{serverIn, clientOut, clientIn, serverOut} {
			_ = end.Close()
		}
		loops.Wait()
	})
	return p
}

// lineLimit are the options of a connection that readAll reads, or no goroutine.
func lineLimit(bytes int) reader.Options {
	return reader.Options{MaxLine: bytes, Go: func(read func()) { read() }}
}

// readAll reads until the stream ends, in the calling goroutine, and returns why it ended. The
// stream is in memory.
func (c *conn) readAll() (end error) {
	c.onReadEnd = func(err error) { end = err }
	c.reader.Start()
	return end
}

// readMessage returns the next message that the client has sent.
func (p *peer) readMessage() (m transporttest.Message) {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	require.NoError(p.t, err)
	require.NoError(p.t, json.Unmarshal([]byte(line), &m), line)
	return m
}

// writeLine writes a line as the server.
func (p *peer) writeLine(format string, args ...any) {
	p.t.Helper()
	_, err := fmt.Fprintf(p.out, format+"\n", args...)
	require.NoError(p.t, err)
}

// outcome is the result or the error of a request.
type outcome struct {
	result string
	err    *mcpvisor.Error
}

// startRequest sends a request in the background and returns a channel for its outcome.
func (p *peer) startRequest(ctx context.Context, r transport.Request) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		result, err := p.request(ctx, &r, nil)
		var e *mcpvisor.Error
		errors.As(err, &e)
		ended <- outcome{string(result), e}
	}()
	return ended
}

// refusal is the error with which the client answers a request of the server.
type refusal struct {
	ID    json.RawMessage `json:"id"`
	Error sdkrpc.Error    `json:"error"`
}

// readRefusal returns the next message of the client, as a response.
func (p *peer) readRefusal() (r refusal) {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	require.NoError(p.t, err)
	require.NoError(p.t, json.Unmarshal([]byte(line), &r), line)
	return r
}

// callOfSDK sends a request as the go-sdk does in the handshake, and returns a channel for its
// answer.
func (p *peer) callOfSDK(id int64) <-chan *sdkrpc.Response {
	p.t.Helper()
	rpcID, err := sdkrpc.MakeID(float64(id))
	require.NoError(p.t, err)
	answered := make(chan *sdkrpc.Response, 1)
	go func() {
		answer, _ := (&handshake{conn: p.conn}).call(p.t.Context(), &sdkrpc.Request{ID: rpcID, Method: "initialize"}, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"initialize"}`, id))
		answered <- answer
	}()
	require.Equal(p.t, id, p.readMessage().ID)
	return answered
}

// ping waits until the messages that the server has written before are handled.
func (p *peer) ping() {
	p.t.Helper()
	p.writeLine(`{"jsonrpc":"2.0","id":"sync","method":"ping"}`)
	require.Equal(p.t, `"sync"`, string(p.readRefusal().ID))
}

// errExits is the panic with which a server exits.
var errExits = errors.New("exit on a request of an unknown method")

// replyServer is a server that writes what reply returns, unless that is empty. It exits
// when reply panics.
func replyServer(reply func(out io.Writer, e jsonrpc.Envelope) string) transporttest.ServeFunc {
	return func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		in := bufio.NewScanner(stdin)
		for in.Scan() {
			e, _ := jsonrpc.ScanEnvelope(in.Bytes())
			if text := reply(stdout, e); text != "" && e.ID != nil {
				fmt.Fprintln(stdout, text)
			}
		}
		return in.Err()
	}
}

// newServerDialer makes a dialer whose first process is the first of the servers, and so
// on; the last server also serves all later processes.
func newServerDialer(t *testing.T, era mcpvisor.Era, servers ...transporttest.ServeFunc) (d *dialer, started *atomic.Int64) {
	t.Helper()
	started = new(atomic.Int64)
	made := NewDialer(mcpvisor.ServerSpec{Name: "m", Era: era, InMemory: &mcpvisor.InMemory{
		Serve: func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
			n := int(started.Add(1)) - 1
			return servers[min(n, len(servers)-1)](ctx, stdin, stdout, stderr)
		}}}, transporttest.MemoryOptions)
	return made.(*dialer), started
}

// openMemory opens a session with a server in memory and ends it with the test.
func openMemory(t *testing.T, serve transporttest.ServeFunc) transport.Session {
	t.Helper()
	d := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: serve},
		Timeouts: mcpvisor.Timeouts{Shutdown: 100 * time.Millisecond}}, transporttest.MemoryOptions)
	s := transporttest.OpenSession(t, d)
	return s
}

// newMemorySession makes a session that is not opened.
func newMemorySession() *session {
	return newDialer(mcpvisor.ServerSpec{Name: "s", InMemory: &mcpvisor.InMemory{}}.WithDefaults(), transport.Options{}).NewSession().(*session)
}

// fillPipe posts lines until the pipe is full and the writing goroutine waits for the
// server.
func (p *peer) fillPipe() {
	p.t.Helper()
	line := []byte(strings.Repeat("f", 1000) + "\n")
	for range 1000 { // a megabyte: more than a pipe holds
		require.True(p.t, p.postLine(&outgoing{text: line}), "the connection has ended")
	}
}

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}
