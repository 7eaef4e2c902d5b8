package peer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	"github.com/mcpvisor/mcpvisor/transport"
)

// asking executes calls: "s/ask" asks its caller when ask allows it, others begin, and end when they may.
func asking(began chan<- string, ask <-chan struct{}, end map[string]chan struct{}) Caller {
	return localFunc(func(ctx context.Context, target string, _ []byte, opts []facade.CallOption) (json.RawMessage, error) {
		began <- target
		if target != "s/ask" {
			select {
			case <-end[target]:
			case <-ctx.Done():
			}
			return json.RawMessage(`"ended"`), nil
		}
		<-ask
		settings, err := relay.SettingsOf(relay.CallSettings{}, opts...)
		if err != nil {
			return nil, err
		}
		return settings.Handlers.Raw(ctx, "s", "roots/list", nil)
	})
}

// TestQuestion_outlives_another_call: a question goes on when another call with the same handlers ends,
// by whose number the question may have come. It ends with the last of them.
func TestQuestion_outlives_another_call(t *testing.T) {
	for range 8 {
		began, ask, end := make(chan string, 2), make(chan struct{}), map[string]chan struct{}{"s/other": make(chan struct{})}
		asked, answer := make(chan context.Context, 1), make(chan struct{})
		route := pair(t, asking(began, ask, end)).Route("s", 1)
		handlers := &relay.Handlers{Raw: func(ctx context.Context, _ relay.ServerRequest) (json.RawMessage, error) {
			asked <- ctx
			select {
			case <-answer:
				return json.RawMessage(`"accept"`), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}}
		results, others := make(chan json.RawMessage, 1), make(chan error, 1)
		go func() {
			_, err := route.CallToolRaw(within(t), "s/other", nil, relay.WithHandlers(handlers))
			others <- err
		}()
		require.Equal(t, "s/other", <-began)
		go func() {
			result, err := route.CallToolRaw(within(t), "s/ask", nil, relay.WithHandlers(handlers))
			if err != nil {
				result = json.RawMessage(err.Error())
			}
			results <- result
		}()
		require.Equal(t, "s/ask", <-began)
		close(ask)
		ctx := <-asked
		close(end["s/other"])
		require.NoError(t, <-others)
		require.NoError(t, ctx.Err())
		close(answer)
		require.JSONEq(t, `"accept"`, string(<-results))
		require.Error(t, ctx.Err())
	}
}

// TestQuestion_of_a_call_that_was_given_up: the client says so, and the server asks by another call with the same
// handlers; without such a caller its question has an error.
func TestQuestion_of_a_call_that_was_given_up(t *testing.T) {
	a := newAuthority(t)
	answers := make(chan []byte, 2)
	address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
		s.send(welcome("b"))
		f, err := s.receive(messageCall)
		if err != nil {
			return
		}
		if _, err := s.receive(messageCancel); err != nil {
			return
		}
		s.send(whole(messageQuestion, f.call, []byte{1, 1, 's', 1, 'm'}), whole(messageWithdraw, f.call, []byte{1}))
		if got, err := s.receive(messageAnswer); err == nil {
			answers <- append([]byte(nil), got.payload...)
		}
	})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	_, err := c.Route("s", 1).CallToolRaw(ctx, "s/x", nil, relay.WithHandlers(&relay.Handlers{Raw: func(context.Context, relay.ServerRequest) (json.RawMessage, error) {
		return nil, errors.New("no caller is to be asked")
	}}))
	require.ErrorIs(t, err, mcpvisor.ErrCanceled)
	select {
	case got := <-answers:
		require.Equal(t, []byte{1, answerGivenUp}, got)
	case <-within(t).Done():
		t.Fatal("the client does not answer")
	}
}

// TestQuestion_asks_by_another_call: see the test before, on the node of the server.
func TestQuestion_asks_by_another_call(t *testing.T) {
	s, far := serverInMemory(t)
	s.Start(&s.server.running)
	a := &answerer{calls: map[uint64]string{7: "other", 9: "s", 8: "s"}}
	result := make(chan error, 1)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	go func() {
		_, err := s.ask(ctx, a, relay.ServerRequest{Server: "s", Method: "m"})
		result <- err
	}()
	var asked []uint64
	for range 3 {
		f, err := far.receive(messageQuestion)
		require.NoError(t, err)
		asked = append(asked, f.call)
		require.NoError(t, s.answered(append(binary.AppendUvarint(nil, uint64(len(asked))), answerGivenUp)))
	}
	require.ElementsMatch(t, []uint64{8, 9}, asked[:2], "calls of the server that asks come first")
	require.Equal(t, uint64(7), asked[2])
	require.ErrorContains(t, <-result, "no call is in flight")
}

// TestQuestion_withdrawn: its handler ends, although the call that brought it has ended before.
func TestQuestion_withdrawn(t *testing.T) {
	s, far := clientInMemory(t)
	s.link.next.Store(1)
	ref := &answererRef{ctx: within(t)}
	asked := make(chan context.Context, 1)
	p := &pending{number: 1, answerer: ref, handlers: &transport.CallHandlers{Raw: func(ctx context.Context, _, _ string, _ json.RawMessage) (json.RawMessage, error) {
		asked <- ctx
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}}
	s.pending[1] = p
	require.NoError(t, s.onDeliver(messageQuestion, 1, []byte{5, 1, 's', 1, 'm'}, nil))
	ctx := <-asked
	s.mu.Lock()
	delete(s.pending, 1)
	s.mu.Unlock()
	v, err := s.onAccept(messageWithdraw, 1, 1)
	require.NoError(t, err)
	require.Equal(t, framing.Keep, v)
	require.NoError(t, s.onDeliver(messageWithdraw, 1, []byte{5}, nil))
	<-ctx.Done()
	_, err = far.receive(messageAnswer)
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.questions)
}
