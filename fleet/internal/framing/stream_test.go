package framing

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mcpvisor/mcpvisor/fleet/internal/framing/framingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Kinds of messages.
const (
	kindCall = iota + 1
	kindResult
	kindBeat
)

func keep(byte, uint64, uint64) (Verdict, error) { return Keep, nil }

// frames reads all frames of a packet, without their payloads.
func frames(t *testing.T, packet []byte) (all []frame) {
	t.Helper()
	for len(packet) > 0 {
		f, rest, err := readFrame(packet)
		require.NoError(t, err)
		f.payload, packet = nil, rest
		all = append(all, f)
	}
	return all
}

// TestSendQueue_turns: long messages share the stream with each other and with short ones.
func TestSendQueue_turns(t *testing.T) {
	o := newSendQueue()
	for call := range uint64(2) {
		o.add(&Message{What: kindResult, Call: call + 1, Body: make([]byte, 5*MaxChunk)})
		o.take(nil)
	}
	require.True(t, o.grant(1))
	require.True(t, o.grant(2))
	var order []uint64
	for len(o.ready) > 0 {
		if len(order) == 3 {
			o.add(&Message{What: kindResult, Call: 9, Body: []byte("short")})
		}
		for _, f := range frames(t, o.take(nil)) {
			order = append(order, f.message)
		}
	}
	require.Equal(t, []uint64{1, 2, 1, 2, 1, 0, 2, 1, 2}, order, "0 is the short one")
	require.False(t, o.grant(3), "it was never begun")
	require.True(t, o.grant(1), "late credit is harmless")
}

// TestSendQueue_withdraw: a message that was not taken to its end cannot be executed, so it was not
// sent; a begun one is dropped.
func TestSendQueue_withdraw(t *testing.T) {
	done := 0
	newMessage := func(size int) *Message {
		return &Message{What: kindCall, Call: 1, Body: make([]byte, size), Done: func() { done++ }}
	}
	o := newSendQueue()
	queued, short, begun, ending := newMessage(10), newMessage(10), newMessage(2*MaxChunk), newMessage(2*MaxChunk)
	o.add(queued)
	require.True(t, o.withdraw(queued))
	require.Empty(t, o.take(nil))
	o.add(short)
	require.Len(t, frames(t, o.take(nil)), 1)
	require.False(t, o.withdraw(short))
	o.add(begun)
	require.Equal(t, byte(frameBegin), frames(t, o.take(nil))[0].kind)
	require.True(t, o.withdraw(begun))
	require.Equal(t, []frame{{kind: frameDrop, message: 1}}, frames(t, o.take(nil)))
	require.True(t, o.grant(1))
	require.Empty(t, o.take(nil))
	o.add(ending)
	o.take(nil)
	require.Equal(t, 3, done)
	o.close()
	require.True(t, o.withdraw(ending))
	require.False(t, o.add(newMessage(1)))
	require.Equal(t, 4, done, "each once")
	refused := newSendQueue()
	again := newMessage(2 * MaxChunk)
	refused.add(again)
	refused.take(nil)
	refused.grant(1)
	refused.refused(1)
	require.Empty(t, refused.take(nil))
	require.Equal(t, 5, done)
	late := newMessage(2 * MaxChunk)
	refused.add(late)
	refused.take(nil)
	refused.grant(2)
	require.True(t, refused.withdraw(late))
	refused.refused(2) // it was on its way
	require.Equal(t, 6, done)
}

// TestSendQueue_control: credits of any number go out in whole frames, and their number is bounded.
func TestSendQueue_control(t *testing.T) {
	o := newSendQueue()
	n := 0
	for o.addControl(frameCredit, 1<<62) {
		n++
	}
	require.Equal(t, maxControl, n)
	for packet := o.take(nil); len(packet) > 0; packet = o.take(nil) {
		require.LessOrEqual(t, len(packet), maxPacket)
		n -= len(frames(t, packet))
	}
	require.Zero(t, n)
}

// TestRoom: messages get room in their order; one that is longer than the limit waits until it is
// alone.
func TestRoom(t *testing.T) {
	r := &room{limit: 100}
	var granted []string
	reserve := func(name string, bytes int) *Place {
		return r.reserve(bytes, func() { granted = append(granted, name) })
	}
	a, b := reserve("a", 60), reserve("b", 60)
	c, d := reserve("c", 500), reserve("d", 1)
	require.Equal(t, []string{"a"}, granted)
	a.Release()
	require.Equal(t, []string{"a", "b"}, granted, "c is longer than the room that is left, and d is behind it")
	b.Release()
	require.Equal(t, []string{"a", "b", "c"}, granted)
	e := reserve("e", 1)
	d.Release()
	c.Release()
	require.Equal(t, []string{"a", "b", "c", "e"}, granted, "d has left the queue")
	e.Release()
	require.Zero(t, r.used)
	require.Empty(t, r.queue)
}

// capacities is a connection that tells the length and the capacity of what is sent.
type capacities struct {
	Packets
	sent chan [2]int
}

func (c capacities) SendMsg(m any) error {
	p := m.(*packet)
	c.sent <- [2]int{len(p.bytes), cap(p.bytes)}
	p.free()
	return nil
}

// TestStream_small_packets: a short packet, which gRPC may keep for long, holds no long buffer.
func TestStream_small_packets(t *testing.T) {
	to := capacities{sent: make(chan [2]int, 10)}
	s := New(to, Config{RoomBytes: 1})
	var writing sync.WaitGroup
	writing.Go(s.write)
	for _, row := range []struct{ message, most int }{{10, 2 * smallPacket}, {MaxChunk, maxPacket}, {smallPacket - 10, 2 * smallPacket}, {2 * smallPacket, maxPacket}, {0, 2 * smallPacket}} {
		s.Send(kindBeat, 0, make([]byte, row.message))
		got := <-to.sent
		require.Greater(t, got[0], row.message)
		require.LessOrEqual(t, got[1], row.most)
	}
	s.End(io.ErrUnexpectedEOF)
	writing.Wait()
}

// hoarder is a connection that writes nothing of what it takes, until it is told to.
type hoarder struct {
	Packets
	held []*packet
}

func (h *hoarder) SendMsg(m any) error {
	h.held = append(h.held, m.(*packet))
	return nil
}

func (h *hoarder) write() (length int) {
	for _, p := range h.held {
		length += len(p.bytes)
		p.free()
	}
	h.held = nil
	return length
}

// TestStream_SendNow_never_blocks: a caller sends for itself only while gRPC holds so little that it
// takes more at once; what comes later waits for the goroutine that may be blocked.
func TestStream_SendNow_never_blocks(t *testing.T) {
	to := new(hoarder)
	s := New(to, Config{RoomBytes: 1})
	call := func() *Message { return &Message{What: kindCall, Call: 1, Body: make([]byte, 100)} }
	for range 1000 {
		require.True(t, s.SendNow(call()))
	}
	require.Less(t, to.write(), maxUnsent+2*smallPacket)
	require.NotEmpty(t, s.out.ready)
	require.True(t, s.SendNow(call()))
	require.Empty(t, to.held, "what waits comes first")
	for s.out.claim() {
		require.NotEmpty(t, s.out.take(nil))
		s.out.release()
	}
	require.Zero(t, s.unsent.Load())
	require.True(t, s.SendNow(call()))
	require.Len(t, to.held, 1)
	require.True(t, s.SendNow(&Message{What: kindCall, Call: 1, Body: make([]byte, smallPacket)}))
	require.Len(t, to.held, 1, "a long one does not fit in a small packet")

	s.End(io.ErrUnexpectedEOF)
	lost := false
	require.False(t, s.SendNow(&Message{Done: func() { lost = true }}))
	require.False(t, lost, "it was never added")
}

// overGRPC returns a stream to a server over gRPC that answers each message with itself.
func overGRPC(t *testing.T) (s *Stream, answers <-chan []byte) {
	t.Helper()
	var loops sync.WaitGroup
	server := grpc.NewServer(ServerOptions(1)...)
	Register(server, func(stream grpc.ServerStream) error {
		var s *Stream
		s = New(stream, Config{Accept: keep, Deliver: func(what byte, call uint64, body []byte, held *Place) error {
			held.Release()
			s.Send(what, call, body)
			return nil
		}})
		s.Start(&loops)
		<-s.Ended()
		return nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	loops.Go(func() { _ = server.Serve(l) })
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), append(DialOptions(1), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := Open(ctx, conn)
	require.NoError(t, err)
	got := make(chan []byte, 1)
	s = New(stream, Config{Accept: keep, Deliver: func(_ byte, _ uint64, body []byte, held *Place) error {
		held.Release()
		got <- body
		return nil
	}})
	s.Start(&loops)
	t.Cleanup(func() {
		s.End(nil)
		cancel()
		_ = conn.Close()
		server.Stop()
		loops.Wait()
	})
	return s, got
}

// TestStream_lengths: a message of any length is the same where it comes.
func TestStream_lengths(t *testing.T) {
	s, answers := overGRPC(t)
	for _, length := range []int{0, 1, MaxChunk - 1, MaxChunk, MaxChunk + 1, 2 * MaxChunk, 3*MaxChunk + 1, 1 << 20, 20 << 20} {
		want := make([]byte, length)
		for i := range want {
			want[i] = byte(i * i >> 8)
		}
		require.True(t, s.Add(&Message{What: kindCall, Call: 1, Body: want}))
		require.True(t, bytes.Equal(want, <-answers), length)
	}
}

// TestStream_gRPC_gives_packets_back: what gRPC has written counts no longer, or callers would soon stop to
// send for themselves.
func TestStream_gRPC_gives_packets_back(t *testing.T) {
	s, answers := overGRPC(t)
	for range 200 {
		require.True(t, s.SendNow(&Message{What: kindCall, Call: 1, Body: make([]byte, 400)}))
		<-answers
	}
	require.Eventually(t, func() bool { return s.unsent.Load() == 0 }, 10*time.Second, time.Millisecond)
}

// TestStream_hostile_peer: a peer that breaks the protocol loses its stream, with an error that says why.
func TestStream_hostile_peer(t *testing.T) {
	chunk := make([]byte, MaxChunk)
	begin := func(message, call uint64) []byte {
		return appendBegin(nil, message, kindCall, call, 2*MaxChunk, chunk)
	}
	for name, row := range map[string]struct {
		packets [][]byte // nil: the credit comes
		why     string
	}{
		"no frame":                    {[][]byte{{99}}, "cannot be read"},
		"half a frame":                {[][]byte{{frameWhole, kindCall}}, "cannot be read"},
		"a length beyond the packet":  {[][]byte{{frameWhole, kindCall, 1, 200, 1}}, "cannot be read"},
		"a long chunk":                {[][]byte{appendWhole(nil, kindCall, 1, make([]byte, MaxChunk+1))}, "a chunk of"},
		"a message without an end":    {[][]byte{appendBegin(nil, 1, kindCall, 1, MaxMessage+1, chunk)}, "a message of"},
		"a message that begins whole": {[][]byte{appendBegin(nil, 1, kindCall, 1, MaxChunk, chunk)}, "that ends with it"},
		"a number that goes back":     {[][]byte{begin(2, 1), begin(1, 2)}, "begins after"},
		"a chunk of nothing":          {[][]byte{appendMore(nil, 7, chunk)}, "never begun"},
		"a chunk beyond the message":  {[][]byte{begin(1, 1), nil, appendMore(nil, 1, chunk[:10]), appendMore(nil, 1, chunk)}, "not of the length"},
		"an empty chunk":              {[][]byte{begin(1, 1), nil, appendMore(nil, 1, nil)}, "not of the length"},
		"a chunk without credit":      {[][]byte{append(begin(1, 1), appendMore(begin(2, 2), 2, chunk)...)}, "without credit"}, // the first has all the room
		"credit for nothing":          {[][]byte{appendControl(nil, frameCredit, 3)}, "never begun"},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := framingtest.Pipe(Codec{})
			s := New(near, Config{RoomBytes: MaxChunk, Accept: keep, Deliver: func(_ byte, _ uint64, _ []byte, held *Place) error {
				held.Release()
				return nil
			}})
			var loops sync.WaitGroup
			s.Start(&loops)
			for _, packet := range row.packets {
				if packet != nil {
					require.NoError(t, far.SendMsg(&packet))
					continue
				}
				require.NoError(t, far.RecvMsg(&packet))
				require.Equal(t, appendControl(nil, frameCredit, 1), packet)
			}
			far.Close()
			<-s.Ended()
			require.ErrorContains(t, s.Err(), "the peer breaks the protocol")
			require.ErrorContains(t, s.Err(), row.why)
			loops.Wait()
			used, waiting := s.Room()
			require.Zero(t, used+waiting, "what has come in part gives its room back")
		})
	}
}

// FuzzReadFrame: no packet makes the reader panic, and what it reads is within the bounds.
func FuzzReadFrame(f *testing.F) {
	f.Add(appendWhole(nil, kindCall, 1, []byte("{}")))
	f.Add(appendBegin(nil, 1, kindResult, 1, 100_000, make([]byte, 10)))
	f.Add(binary.AppendUvarint([]byte{frameMore}, 1<<63))
	f.Fuzz(func(t *testing.T, packet []byte) {
		for len(packet) > 0 {
			f, rest, err := readFrame(packet)
			if err != nil {
				return
			}
			if len(rest) >= len(packet) || len(f.payload) > MaxChunk || f.total > MaxMessage {
				t.Fatal(f)
			}
			packet = rest
		}
	})
}

// TestSendQueue_endWhenEmpty_waits_for_what_is_being_sent: the last answer may be one that its goroutine sends itself.
func TestSendQueue_endWhenEmpty_waits_for_what_is_being_sent(t *testing.T) {
	o := newSendQueue()
	answer := &Message{What: kindResult, Call: 1, Done: o.endWhenEmpty}
	_, claimed := o.claimFor(answer, nil)
	require.True(t, claimed)
	require.False(t, o.isFinished())
	<-o.wake // of endWhenEmpty
	o.release()
	<-o.wake // the waiting goroutine looks again
	require.True(t, o.isFinished())
	o.sendNoMore(kindCall)
	_, claimed = o.claimFor(&Message{What: kindCall}, nil)
	require.False(t, claimed)
}
