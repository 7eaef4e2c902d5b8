package peer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// rawStream is one end of a stream that sends what a test wants.
type rawStream struct {
	t testing.TB
	packets
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
	var packet []byte
	for {
		if err := r.RecvMsg(&packet); err != nil {
			return frame{}, err
		}
		for rest := packet; len(rest) > 0; {
			f, next, err := readFrame(rest)
			require.NoError(r.t, err)
			if rest = next; f.what == what {
				return f, nil
			}
			if f.what == messageBeat {
				r.send(whole(messageBeatBack, 0, nil))
			}
		}
	}
}

// whole is a frame with a message.
func whole(what byte, call uint64, payload []byte) []byte {
	return appendWhole(nil, what, call, payload)
}

func greeting(node string) []byte {
	b, _ := json.Marshal(hello{Version: version, Node: node})
	return whole(messageHello, 0, b)
}

// callOf is a call of the tool "s/x".
func callOf(args []byte) []byte {
	c := call{method: methodTool, server: "s", target: "s/x", args: args}
	return c.append(nil)
}

// dialRaw opens a stream of node a to the server.
func dialRaw(t testing.TB, id Identity, address string) rawStream {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(id.clientTLS("b"))),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallSendMsgSize(1<<30)))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	s, err := conn.NewStream(ctx, &linkDesc, methodName)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	return rawStream{t, s}
}

// TestServer_hostile_client: a client that breaks the protocol loses its stream, with an error that
// says why; others notice nothing.
func TestServer_hostile_client(t *testing.T) {
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo, MaxCalls: 4 * streamsPerLink, MaxCallBytes: 1 << 20})
	good := connect(t, ClientConfig{Identity: identity(t, a, "good"), Address: address}).Route("s", 1)
	id := identity(t, a, "a")
	chunk := make([]byte, maxChunk)
	begin := func(message, call uint64) []byte {
		return appendBegin(nil, message, messageCall, call, 2*maxChunk, chunk)
	}
	for name, row := range map[string]struct {
		frames [][]byte // after the greeting; each is a packet
		why    string
	}{
		"no frame":                    {[][]byte{{99}}, "cannot be read"},
		"half a frame":                {[][]byte{{frameWhole, messageCall}}, "cannot be read"},
		"a length beyond the packet":  {[][]byte{{frameWhole, messageCall, 1, 200, 1}}, "cannot be read"},
		"a long chunk":                {[][]byte{whole(messageCall, 1, make([]byte, maxChunk+1))}, "a chunk of"},
		"a long packet":               {[][]byte{make([]byte, maxPacket+1)}, "larger than max"},
		"a message without an end":    {[][]byte{appendBegin(nil, 1, messageCall, 1, maxMessage+1, chunk)}, "a message of"},
		"a message that begins whole": {[][]byte{appendBegin(nil, 1, messageCall, 1, maxChunk, chunk)}, "that it holds"},
		"a number that goes back":     {[][]byte{begin(2, 1), begin(1, 2)}, "begins after"},
		"a chunk of nothing":          {[][]byte{appendMore(nil, 7, chunk)}, "never begun"},
		"a chunk beyond the message":  {[][]byte{begin(1, 1), nil, appendMore(nil, 1, chunk[:10]), appendMore(nil, 1, chunk)}, "not of the length"},
		"an empty chunk":              {[][]byte{begin(1, 1), nil, appendMore(nil, 1, nil)}, "not of the length"},
		"credit for nothing":          {[][]byte{appendControl(nil, frameCredit, 3)}, "never begun"},
		"a second greeting":           {[][]byte{greeting("a")}, "none may come"},
		"a call that cannot be read":  {[][]byte{whole(messageCall, 1, []byte{1, 200})}, "cannot be read"},
		"a call of no kind":           {[][]byte{whole(messageCall, 1, append([]byte{0}, callOf(nil)[1:]...))}, "cannot be read"},
		"calls that do not come":      {[][]byte{begin(1, 1), begin(2, 2), begin(3, 3), begin(4, 4), begin(5, 5)}, "do not come"},
		"an answer to nothing":        {[][]byte{whole(messageAnswer, 1, nil)}, "cannot be read"},
		"a beat with a body":          {[][]byte{whole(messageBeat, 0, chunk)}, "with 32768 bytes"},
		"a cancellation with a body":  {[][]byte{whole(messageCancel, 1, chunk)}, "with 32768 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := dialRaw(t, id, address)
			s.send(greeting("a"))
			_, err := s.receive(messageWelcome)
			require.NoError(t, err)
			for _, packet := range row.frames {
				if packet == nil { // the credit
					var credit []byte
					require.NoError(t, s.RecvMsg(&credit))
					require.Equal(t, appendControl(nil, frameCredit, 1), credit)
					continue
				}
				s.send(packet)
			}
			_, err = s.receive(99)
			require.ErrorContains(t, err, row.why)
			_, err = good.CallToolRaw(within(t), "s/x", []byte("1"))
			require.NoError(t, err)
		})
	}
	t.Run("a call twice", func(t *testing.T) {
		blocked, release := make(chan struct{}, 2), make(chan struct{})
		defer close(release)
		_, slow := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: localFunc(func(ctx context.Context, _ string, _ []byte, _ []facade.CallOption) (json.RawMessage, error) {
			blocked <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		s := dialRaw(t, id, slow)
		s.send(greeting("a"), whole(messageCall, 1, callOf(nil)))
		<-blocked
		s.send(whole(messageCall, 1, callOf(nil)))
		_, err := s.receive(99)
		require.ErrorContains(t, err, "made twice")
	})
	t.Run("no greeting", func(t *testing.T) {
		s := dialRaw(t, id, address)
		s.send(whole(messageCall, 1, callOf(nil)))
		_, err := s.receive(99)
		require.ErrorContains(t, err, "none may come")
	})
	t.Run("the name of another node", func(t *testing.T) {
		s := dialRaw(t, id, address)
		s.send(greeting("good"))
		_, err := s.receive(99)
		require.ErrorContains(t, err, `node "a" says that it is node "good"`)
	})
	t.Run("a chunk without credit", func(t *testing.T) {
		_, small := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo, RoomBytes: streamsPerLink * maxChunk})
		s := dialRaw(t, id, small)
		s.send(greeting("a"), begin(1, 1))
		s.send(begin(2, 2), appendMore(nil, 2, chunk)) // the first has all the room
		_, err := s.receive(99)
		require.ErrorContains(t, err, "without credit")
	})
	t.Run("a call that is too long", func(t *testing.T) {
		s := dialRaw(t, id, address)
		s.send(greeting("a"), appendBegin(nil, 1, messageCall, 1, 2<<20, chunk))
		f, err := s.receive(messageFailure)
		require.NoError(t, err)
		require.Equal(t, mcpvisor.OutcomeNotSent, decodeFailure(f.payload).Outcome)
		s.send(whole(messageCall, 2, callOf([]byte("1")))) // and the stream lives
		f, err = s.receive(messageResult)
		require.NoError(t, err)
		require.Equal(t, "1", string(f.payload))
	})
}

// TestServer_flood_of_unknown_calls: what is refused, and not read, is bounded.
func TestServer_flood_of_unknown_calls(t *testing.T) {
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo, MaxCalls: 8 * streamsPerLink})
	s := dialRaw(t, identity(t, a, "a"), address)
	s.send(greeting("a"))
	unknown := append([]byte{77}, callOf(nil)[1:]...)
	for i := range uint64(100_000) {
		packet := whole(messageCall, i+1, unknown)
		if s.SendMsg(&packet) != nil {
			break
		}
	}
	_, err := s.receive(99)
	require.ErrorContains(t, err, "reads no answer")
}

// TestServer_client_that_never_reads: what waits for it is bounded, and it is cut.
func TestServer_client_that_never_reads(t *testing.T) {
	a := newAuthority(t)
	var running, most atomic.Int64
	large := make([]byte, 8<<20)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), MaxCalls: 8 * streamsPerLink,
		Local: localFunc(func(context.Context, string, []byte, []facade.CallOption) (json.RawMessage, error) {
			most.Store(max(most.Load(), running.Add(1)))
			return large, nil
		})})
	s := dialRaw(t, identity(t, a, "a"), address)
	s.send(greeting("a"))
	for i := range uint64(1000) {
		packet := whole(messageCall, i+1, callOf(nil))
		if s.SendMsg(&packet) != nil {
			break
		}
	}
	_, err := s.receive(99) // it reads now, which it must not have done before it was cut
	require.ErrorContains(t, err, "reads no answer")
	require.LessOrEqual(t, most.Load(), int64(8))
}

// TestServer_beats: a flood of beats has few answers.
func TestServer_beats(t *testing.T) {
	s := newStream(nil, 1)
	server := &serverStream{stream: s}
	for range 1000 {
		require.NoError(t, server.onDeliver(messageBeat, 0, nil, nil))
	}
	require.Len(t, s.out.ready, 1)
	s.out.take(nil)
	require.NoError(t, server.onDeliver(messageBeat, 0, nil, nil))
	require.Len(t, s.out.ready, 1)
}

// hostileServer answers the greeting of each stream, and then does what handle says.
func hostileServer(t testing.TB, id Identity, handle func(s rawStream)) string {
	t.Helper()
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(id.serverTLS(nil))), grpc.ForceServerCodecV2(codec{}))
	g.RegisterService(&grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: streamName, ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			handle(rawStream{t, stream})
			<-stream.Context().Done()
			return nil
		},
	}}}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

func welcome(node string) []byte {
	b, _ := json.Marshal(hello{Version: version, Node: node})
	return whole(messageWelcome, 0, b)
}

// TestClient_hostile_server: a node that breaks the protocol loses its link. The call in flight has
// an unknown outcome, because it was sent.
func TestClient_hostile_server(t *testing.T) {
	a := newAuthority(t)
	chunk := make([]byte, maxChunk)
	for name, row := range map[string]struct {
		answer func(s rawStream, number uint64)
		why    string
	}{
		"an answer to no call": {func(s rawStream, n uint64) { s.send(whole(messageResult, n+9, nil)) }, "never made"},
		"two answers": {func(s rawStream, n uint64) {
			s.send(appendBegin(nil, 1, messageResult, n, 2*maxChunk, chunk), whole(messageResult, n, nil))
		}, "second answer"},
		"a long error":              {func(s rawStream, n uint64) { s.send(appendBegin(nil, 1, messageFailure, n, maxFailure+1, chunk)) }, "with 1048577 bytes"},
		"a long report":             {func(s rawStream, n uint64) { s.send(appendBegin(nil, 1, messageProgress, n, 2*maxChunk, chunk)) }, "with 65536 bytes"},
		"a question without anyone": {func(s rawStream, n uint64) { s.send(whole(messageQuestion, n, []byte{1, 1, 's', 1, 'm'})) }, "without handlers"},
		"a question in pieces":      {func(s rawStream, n uint64) { s.send(whole(messageQuestion, n, []byte{1, 200})) }, "cannot be read"},
		"a second greeting":         {func(s rawStream, _ uint64) { s.send(welcome("b"), welcome("b")) }, "second greeting"},
		"a task of another call":    {func(s rawStream, n uint64) { s.send(whole(messageTask, n, []byte{0, 1, 'x'})) }, "does not want any"},
		"a notice of another call":  {func(s rawStream, n uint64) { s.send(whole(messageNotice, n, []byte("{}"))) }, "does not want any"},
		"junk":                      {func(s rawStream, _ uint64) { s.send([]byte{0}) }, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
				s.send(welcome("b"))
				if f, err := s.receive(messageCall); err == nil {
					row.answer(s, f.call)
				}
			})
			c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
			_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", nil)
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			require.ErrorContains(t, err, row.why)
			var e *mcpvisor.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
		})
	}
	for name, row := range map[string]struct {
		answer func(s rawStream, number uint64)
		kind   error
		why    string
	}{
		"a result that is too long":    {func(s rawStream, n uint64) { s.send(appendBegin(nil, 1, messageResult, n, 2<<20, chunk)) }, mcpvisor.ErrProtocol, "2097152 bytes"},
		"an error that cannot be read": {func(s rawStream, n uint64) { s.send(whole(messageFailure, n, []byte("no"))) }, mcpvisor.ErrProtocol, "cannot be read"},
		"a message of a later version": {func(s rawStream, n uint64) {
			s.send(whole(200, n, nil), whole(messageFailure, n, encodeFailure(errors.New("late"))))
		}, mcpvisor.ErrProtocol, "late"},
		"many reports, and then the end": {func(s rawStream, n uint64) {
			for range 20_000 {
				s.send(whole(messageProgress, n, []byte("{}")))
			}
			s.send(whole(messageFailure, n, encodeFailure(errors.New("end"))))
		}, mcpvisor.ErrProtocol, "end"},
	} {
		t.Run(name, func(t *testing.T) {
			address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
				s.send(welcome("b"))
				for {
					f, err := s.receive(messageCall)
					if err != nil {
						return
					}
					if strings.Contains(string(f.payload), "again") {
						s.send(whole(messageResult, f.call, []byte("{}")))
					} else {
						row.answer(s, f.call)
					}
				}
			})
			route := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address, MaxResultBytes: 1 << 20}).Route("s", 1)
			_, err := route.CallToolRaw(within(t), "s/x", nil)
			require.ErrorIs(t, err, row.kind)
			require.ErrorContains(t, err, row.why)
			_, err = route.CallToolRaw(within(t), "s/x", []byte(`"again"`)) // the link lives
			require.NoError(t, err)
		})
	}
	t.Run("another name", func(t *testing.T) {
		address := hostileServer(t, identity(t, a, "b"), func(s rawStream) { s.send(welcome("c")) })
		requireRefused(t, ClientConfig{Identity: identity(t, a, "a"), Node: "b", Address: address}, `says that it is "c"`)
	})
}

// TestClient_node_that_is_silent: a node that reads nothing and says nothing is suspect after three
// beats: new calls are not sent. A call whose context ends returns at once.
func TestClient_node_that_is_silent(t *testing.T) {
	a := newAuthority(t)
	address := hostileServer(t, identity(t, a, "b"), func(s rawStream) { s.send(welcome("b")) })
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	route := c.Route("s", 1)
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for range 10 { // more than the stream takes of a peer that does not read
		_, err := route.CallToolRaw(short, "s/x", make([]byte, maxChunk-200))
		require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	}
	require.Eventually(t, func() bool { return c.Reachable() != nil }, 20*time.Second, 10*time.Millisecond)
	_, err := route.CallToolRaw(context.Background(), "s/x", nil)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	require.ErrorContains(t, err, "nothing has come from the node")
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
}

// FuzzReadFrame: no packet makes the reader panic, and what it reads is within the bounds.
func FuzzReadFrame(f *testing.F) {
	f.Add(whole(messageCall, 1, callOf([]byte("{}"))))
	f.Add(appendBegin(nil, 1, messageResult, 1, 100_000, make([]byte, 10)))
	f.Add(binary.AppendUvarint([]byte{frameMore}, 1<<63))
	f.Fuzz(func(t *testing.T, packet []byte) {
		for len(packet) > 0 {
			f, rest, err := readFrame(packet)
			if err != nil {
				return
			}
			if len(rest) >= len(packet) || len(f.payload) > maxChunk || f.total > maxMessage {
				t.Fatal(f)
			}
			packet = rest
			_, _ = readCall(f.payload)
		}
	})
}
