package peer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
)

// TestServer_hostile_client: a client that breaks the protocol loses its stream, with an error that
// says why; others notice nothing.
func TestServer_hostile_client(t *testing.T) {
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo, MaxCalls: 4 * streamsPerLink, MaxCallBytes: 1 << 20})
	good := connect(t, ClientConfig{Identity: identity(t, a, "good"), Address: address}).Route("s", 1)
	id := identity(t, a, "a")
	chunk := make([]byte, framing.MaxChunk)
	begin := func(message, call uint64) []byte {
		return begins(message, messageCall, call, 2*framing.MaxChunk, chunk)
	}
	for name, row := range map[string]struct {
		frames [][]byte // after the greeting; each is a packet. See package framing for those of frames
		why    string
	}{
		"no frame":                   {[][]byte{{99}}, "cannot be read"},
		"a long packet":              {[][]byte{make([]byte, 3*framing.MaxChunk)}, "larger than max"},
		"a second greeting":          {[][]byte{greeting("a")}, "none may come"},
		"a call that cannot be read": {[][]byte{whole(messageCall, 1, []byte{1, 200})}, "cannot be read"},
		"a call of no kind":          {[][]byte{whole(messageCall, 1, append([]byte{0}, callOf(nil)[1:]...))}, "cannot be read"},
		"calls that do not come":     {[][]byte{begin(1, 1), begin(2, 2), begin(3, 3), begin(4, 4), begin(5, 5)}, "do not come"},
		"an answer to nothing":       {[][]byte{whole(messageAnswer, 1, nil)}, "cannot be read"},
		"a beat with a body":         {[][]byte{whole(messageBeat, 0, chunk)}, "with 32768 bytes"},
		"a cancellation with a body": {[][]byte{whole(messageCancel, 1, chunk)}, "with 32768 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := dialRaw(t, id, address)
			s.send(greeting("a"))
			_, err := s.receive(messageWelcome)
			require.NoError(t, err)
			for _, packet := range row.frames {
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
	t.Run("a call that is too long", func(t *testing.T) {
		s := dialRaw(t, id, address)
		s.send(greeting("a"), begins(1, messageCall, 1, 2<<20, chunk))
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
	s, far := serverInMemory(t)
	beats := func() {
		for range 1000 {
			require.NoError(t, s.onDeliver(messageBeat, 0, nil, nil))
		}
	}
	beats()
	s.Start(&s.server.running)
	for range 2 {
		got, err := far.next()
		require.NoError(t, err)
		require.Equal(t, []frame{{what: messageBeatBack, payload: []byte{}}}, got)
		beats()
	}
}

// TestClient_hostile_server: a node that breaks the protocol loses its link. The call in flight has
// an unknown outcome, because it was sent.
func TestClient_hostile_server(t *testing.T) {
	a := newAuthority(t)
	chunk := make([]byte, framing.MaxChunk)
	for name, row := range map[string]struct {
		answer func(s rawStream, number uint64)
		why    string
	}{
		"an answer to no call": {func(s rawStream, n uint64) { s.send(whole(messageResult, n+9, nil)) }, "never made"},
		"two answers": {func(s rawStream, n uint64) {
			s.send(begins(1, messageResult, n, 2*framing.MaxChunk, chunk), whole(messageResult, n, nil))
		}, "second answer"},
		"a long error":              {func(s rawStream, n uint64) { s.send(begins(1, messageFailure, n, maxFailure+1, chunk)) }, "with 1048577 bytes"},
		"a long report":             {func(s rawStream, n uint64) { s.send(begins(1, messageProgress, n, 2*framing.MaxChunk, chunk)) }, "with 65536 bytes"},
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
		"a result that is too long":    {func(s rawStream, n uint64) { s.send(begins(1, messageResult, n, 2<<20, chunk)) }, mcpvisor.ErrProtocol, "2097152 bytes"},
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

// TestLink_isSuspect: a node that was stopped itself, and has sent no beats, suspects no other.
func TestLink_isSuspect(t *testing.T) {
	l := &link{began: time.Now().Add(-time.Hour)}
	require.False(t, l.isSuspect(30*time.Minute), "no three beats were sent")
	l.third.Store(int64(50 * time.Minute))
	require.False(t, l.isSuspect(8*time.Minute), "the third last beat was sent before")
	require.True(t, l.isSuspect(12*time.Minute))
	l.third.Store(int64(time.Hour - time.Second))
	require.False(t, l.isSuspect(suspectAfter-time.Second))
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
		_, err := route.CallToolRaw(short, "s/x", make([]byte, framing.MaxChunk-200))
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

// FuzzReadCall: no message makes the reader of calls panic.
func FuzzReadCall(f *testing.F) {
	f.Add(callOf([]byte("{}")))
	f.Fuzz(func(_ *testing.T, message []byte) { _, _ = readCall(message) })
}
