package peer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing/framingtest"
	"github.com/mcpvisor/mcpvisor/fleet/internal/varint"
	"github.com/mcpvisor/mcpvisor/transport"
)

// readCall decodes a call.
func readCall(message []byte) (c call, err error) {
	err = c.read(message)
	return c, err
}

// rawStream is one end of a stream that sends what a test wants.
type rawStream struct {
	t testing.TB
	framing.Packets
}

// frame is a message that has come: all of it, or how it begins.
type frame struct {
	what        byte
	call, total uint64
	payload     []byte
}

func (r rawStream) send(frames ...[]byte) {
	r.t.Helper()
	packet := []byte(nil)
	for _, f := range frames {
		packet = append(packet, f...)
	}
	_ = r.SendMsg(&packet) // the other end may have closed it already
}

// receive returns the next message of a kind, or the error that ends the stream. It answers beats.
func (r rawStream) receive(what byte) (frame, error) {
	for {
		all, err := r.next()
		if err != nil {
			return frame{}, err
		}
		for _, f := range all {
			if f.what == what {
				return f, nil
			}
			if f.what == messageBeat {
				r.send(whole(messageBeatBack, 0, nil))
			}
		}
	}
}

// The kinds of frames that a test needs; see package framing.
const (
	frameWhole = iota + 1
	frameBegin
	frameMore
)

// next returns the messages of the next packet.
func (r rawStream) next() (all []frame, err error) {
	var packet []byte
	if err := r.RecvMsg(&packet); err != nil {
		return nil, err
	}
	read := varint.Reader{Rest: packet}
	for len(read.Rest) > 0 {
		var f frame
		switch kind := read.Byte(); kind {
		case frameWhole:
			f.what, f.call, f.payload = read.Byte(), read.Uint(), read.Bytes()
			f.total = uint64(len(f.payload))
		case frameBegin:
			read.Uint()
			f.what, f.call, f.total, f.payload = read.Byte(), read.Uint(), read.Uint(), read.Bytes()
		case frameMore:
			read.Uint()
			read.Bytes()
		default:
			read.Uint()
		}
		if f.what != 0 {
			all = append(all, f)
		}
	}
	require.False(r.t, read.Failed)
	return all, nil
}

// whole is a frame with a message.
func whole(what byte, call uint64, payload []byte) []byte {
	return varint.AppendBytes(binary.AppendUvarint([]byte{frameWhole, what}, call), payload)
}

// begins is a frame with the first chunk of a message.
func begins(message uint64, what byte, call, total uint64, chunk []byte) []byte {
	b := binary.AppendUvarint([]byte{frameBegin}, message)
	b = binary.AppendUvarint(append(b, what), call)
	return varint.AppendBytes(binary.AppendUvarint(b, total), chunk)
}

// more is a frame with a further chunk.
func more(message uint64, chunk []byte) []byte {
	return varint.AppendBytes(binary.AppendUvarint([]byte{frameMore}, message), chunk)
}

// helloOf is a greeting with a version.
func helloOf(what byte, node string, version int) []byte {
	b, _ := json.Marshal(hello{Version: version, Node: node})
	return whole(what, 0, b)
}

func greeting(node string) []byte { return helloOf(messageHello, node, version) }

// callOf is a call of the tool "s/x".
func callOf(args []byte) []byte {
	c := call{method: methodTool, server: "s", target: "s/x", args: args}
	return c.append(nil)
}

// dialRaw opens a stream of node a to the server.
func dialRaw(t testing.TB, id Identity, address string) rawStream {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append(framing.DialOptions(1), grpc.WithTransportCredentials(credentials.NewTLS(id.clientTLS("b"))),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30)))...)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	s, err := framing.Open(ctx, conn)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	return rawStream{t, s}
}

// hostileServer answers the greeting of each stream, and then does what handle says.
func hostileServer(t testing.TB, id Identity, handle func(s rawStream)) string {
	t.Helper()
	g := grpc.NewServer(append(framing.ServerOptions(1), grpc.Creds(credentials.NewTLS(id.serverTLS())))...)
	framing.Register(g, func(stream grpc.ServerStream) error {
		handle(rawStream{t, stream})
		<-stream.Context().Done()
		return nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

func welcome(node string) []byte { return helloOf(messageWelcome, node, version) }

// serverInMemory returns a stream of a server, which was greeted and not started, and its far end.
func serverInMemory(t *testing.T) (*serverStream, rawStream) {
	t.Helper()
	near, far := framingtest.Pipe(framing.Codec{})
	s := &serverStream{server: &Server{config: ServerConfig{Check: always}}, calls: map[uint64]*served{}, questions: map[uint64]chan reply{}, greeted: true}
	s.Stream = framing.New(near, framing.Config{RoomBytes: 1 << 20, Accept: s.onAccept, Deliver: s.onDeliver})
	t.Cleanup(func() {
		s.End(nil)
		near.Close()
		s.server.running.Wait()
	})
	return s, rawStream{t, far}
}

// clientInMemory returns a stream of a client, and its far end.
func clientInMemory(t *testing.T) (*clientStream, rawStream) {
	t.Helper()
	near, far := framingtest.Pipe(framing.Codec{})
	l := &link{client: &Client{}, ended: make(chan struct{}), answerers: map[*transport.CallHandlers]*answererRef{}}
	s := l.newStream(near)
	t.Cleanup(func() {
		s.End(nil)
		near.Close()
		l.loops.Wait()
	})
	return s, rawStream{t, far}
}
