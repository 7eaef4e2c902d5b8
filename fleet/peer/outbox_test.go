package peer

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// TestOutbox_turns: long messages share the stream with each other and with short ones.
func TestOutbox_turns(t *testing.T) {
	o := newOutbox()
	for call := range uint64(2) {
		o.add(&transfer{what: messageResult, call: call + 1, body: make([]byte, 5*maxChunk)})
		o.take(nil)
	}
	require.True(t, o.grant(1))
	require.True(t, o.grant(2))
	var order []uint64
	for len(o.ready) > 0 {
		if len(order) == 3 {
			o.add(&transfer{what: messageResult, call: 9, body: []byte("short")})
		}
		for _, f := range frames(t, o.take(nil)) {
			order = append(order, f.message)
		}
	}
	require.Equal(t, []uint64{1, 2, 1, 2, 1, 0, 2, 1, 2}, order, "0 is the short one")
	require.False(t, o.grant(3), "it was never begun")
	require.True(t, o.grant(1), "late credit is harmless")
}

// TestOutbox_withdraw: a message that was not taken to its end cannot be executed, so it was not
// sent; a begun one is dropped.
func TestOutbox_withdraw(t *testing.T) {
	done := 0
	newTransfer := func(size int) *transfer {
		return &transfer{what: messageCall, call: 1, body: make([]byte, size), done: func() { done++ }}
	}
	o := newOutbox()
	queued, short, begun, ending := newTransfer(10), newTransfer(10), newTransfer(2*maxChunk), newTransfer(2*maxChunk)
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
	require.False(t, o.add(newTransfer(1)))
	require.Equal(t, 4, done, "each once")
	refused := newOutbox()
	again := newTransfer(2 * maxChunk)
	refused.add(again)
	refused.take(nil)
	refused.grant(1)
	refused.refused(1)
	require.Empty(t, refused.take(nil))
	require.Equal(t, 5, done)
	late := newTransfer(2 * maxChunk)
	refused.add(late)
	refused.take(nil)
	refused.grant(2)
	require.True(t, refused.withdraw(late))
	refused.refused(2) // it was on its way
	require.Equal(t, 6, done)
}

// TestOutbox_control: credits of any number go out in whole frames, and their number is bounded.
func TestOutbox_control(t *testing.T) {
	o := newOutbox()
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
	reserve := func(name string, bytes int) *place {
		return r.reserve(bytes, func() { granted = append(granted, name) })
	}
	a, b := reserve("a", 60), reserve("b", 60)
	c, d := reserve("c", 500), reserve("d", 1)
	require.Equal(t, []string{"a"}, granted)
	r.release(a)
	require.Equal(t, []string{"a", "b"}, granted, "c is longer than the room that is left, and d is behind it")
	r.release(b)
	require.Equal(t, []string{"a", "b", "c"}, granted)
	e := reserve("e", 1)
	r.release(d)
	r.release(c)
	require.Equal(t, []string{"a", "b", "c", "e"}, granted, "d has left the queue")
	r.release(e)
	require.Zero(t, r.used)
	require.Empty(t, r.queue)
}

// capacities is a connection that tells the length and the capacity of what is sent.
type capacities struct {
	packets
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
	s := newStream(to, 1)
	var writing sync.WaitGroup
	writing.Go(s.write)
	for _, row := range []struct{ message, most int }{{10, 2 * smallPacket}, {maxChunk, maxPacket}, {smallPacket - 10, 2 * smallPacket}, {2 * smallPacket, maxPacket}, {0, 2 * smallPacket}} {
		s.send(messageBeat, 0, make([]byte, row.message))
		got := <-to.sent
		require.Greater(t, got[0], row.message)
		require.LessOrEqual(t, got[1], row.most)
	}
	s.end(errSilent)
	writing.Wait()
}

// hoarder is a connection that writes nothing of what it takes, until it is told to.
type hoarder struct {
	packets
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

// TestStream_sendNow_never_blocks: a caller sends for itself only while gRPC holds so little that it
// takes more at once; what comes later waits for the goroutine that may be blocked.
func TestStream_sendNow_never_blocks(t *testing.T) {
	to := new(hoarder)
	s := newStream(to, 1)
	call := func() *transfer { return &transfer{what: messageCall, call: 1, body: make([]byte, 100)} }
	for range 1000 {
		require.True(t, s.sendNow(call()))
	}
	require.Less(t, to.write(), maxUnsent+2*smallPacket)
	require.NotEmpty(t, s.out.ready)
	require.True(t, s.sendNow(call()))
	require.Empty(t, to.held, "what waits comes first")
	for s.out.claim() {
		require.NotEmpty(t, s.out.take(nil))
		s.out.release()
	}
	require.Zero(t, s.unsent.Load())
	require.True(t, s.sendNow(call()))
	require.Len(t, to.held, 1)
	require.True(t, s.sendNow(&transfer{what: messageCall, call: 1, body: make([]byte, smallPacket)}))
	require.Len(t, to.held, 1, "a long one does not fit in a small packet")

	s.end(errSilent)
	lost := false
	require.False(t, s.sendNow(&transfer{done: func() { lost = true }}))
	require.False(t, lost, "it was never added")
}

// TestStream_gRPC_gives_packets_back: what gRPC has written counts no longer, or callers would soon stop to
// send for themselves.
func TestStream_gRPC_gives_packets_back(t *testing.T) {
	c := pair(t, echo)
	for range 200 {
		_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", make([]byte, 400))
		require.NoError(t, err)
	}
	for _, s := range c.link.Load().streams {
		require.Eventually(t, func() bool { return s.unsent.Load() == 0 }, 10*time.Second, time.Millisecond)
	}
}

// TestOutbox_endWhenEmpty_waits_for_what_is_being_sent: the last answer may be one that its goroutine sends itself.
func TestOutbox_endWhenEmpty_waits_for_what_is_being_sent(t *testing.T) {
	o := newOutbox()
	answer := &transfer{what: messageResult, call: 1, done: o.endWhenEmpty}
	_, claimed := o.claimFor(answer, nil)
	require.True(t, claimed)
	require.False(t, o.isFinished())
	<-o.wake // of endWhenEmpty
	o.release()
	<-o.wake // whoever waits looks again
	require.True(t, o.isFinished())
	o.refuseCalls()
	_, claimed = o.claimFor(&transfer{what: messageCall}, nil)
	require.False(t, claimed)
}
