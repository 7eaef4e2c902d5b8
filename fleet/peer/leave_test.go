package peer

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
)

// TestServer_Shutdown: whatever callers do while the server leaves, each call is executed and has its
// result, or was not sent.
func TestServer_Shutdown(t *testing.T) {
	a := newAuthority(t)
	for range 10 {
		var executed atomic.Int64
		s, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: localFunc(func(_ context.Context, _ string, args []byte, _ []facade.CallOption) (json.RawMessage, error) {
			executed.Add(1)
			return args, nil
		})})
		route := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address}).Route("s", 1)
		var answered atomic.Int64
		busy := make(chan struct{}, 1)
		var callers sync.WaitGroup
		for range 16 {
			callers.Go(func() {
				for n := 0; ; n++ {
					args := []byte(`1`)
					if n%8 == 7 {
						args = make([]byte, 3*framing.MaxChunk) // it waits for credit
					}
					_, err := route.CallToolRaw(within(t), "s/x", args)
					if err != nil {
						requireNotSent(t, err)
						return
					}
					if answered.Add(1) > 200 {
						select {
						case busy <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		<-busy
		s.Shutdown(within(t))
		callers.Wait()
		require.Equal(t, executed.Load(), answered.Load())
	}
}

// TestServer_Shutdown_waits_for_answers: a call that is being executed has its result, and none begins any
// more.
func TestServer_Shutdown_waits_for_answers(t *testing.T) {
	a := newAuthority(t)
	executes, release := make(chan struct{}, 1), make(chan struct{})
	s, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: localFunc(func(_ context.Context, _ string, args []byte, _ []facade.CallOption) (json.RawMessage, error) {
		executes <- struct{}{}
		<-release
		return args, nil
	})})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	l, err := c.current()
	require.NoError(t, err)
	call := func(args []byte) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", args)
			done <- err
		}()
		return done
	}
	runs := call([]byte(`1`))
	<-executes
	ended := make(chan struct{})
	go func() {
		s.Shutdown(within(t))
		close(ended)
	}()
	require.Eventually(t, l.leaving.Load, 20*time.Second, time.Millisecond)
	requireNotSent(t, <-call([]byte(`2`)), "the node is leaving")
	select {
	case <-ended:
		t.Fatal("the server has ended before its answer")
	case err := <-runs:
		t.Fatal("the call has ended before its answer", err)
	default:
	}
	close(release)
	require.NoError(t, <-runs)
	<-ended
}

// TestServer_Shutdown_of_silent_clients: a client that does not answer is left behind when ctx ends.
func TestServer_Shutdown_of_silent_clients(t *testing.T) {
	a := newAuthority(t)
	s, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo})
	raw := dialRaw(t, identity(t, a, "a"), address)
	raw.send(greeting("a"))
	_, err := raw.receive(messageWelcome)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		s.Shutdown(ctx)
		close(ended)
	}()
	_, err = raw.receive(messageLeaving)
	require.NoError(t, err)
	raw.send(whole(messageCall, 1, callOf([]byte("1"))))
	f, err := raw.receive(messageResult)
	require.NoError(t, err)
	require.Equal(t, "1", string(f.payload))
	cancel()
	<-ended
}

// TestLeave_withdraws: when the server leaves, a call of which it cannot have all bytes is taken back.
func TestLeave_withdraws(t *testing.T) {
	a := newAuthority(t)
	begun := make(chan rawStream, streamsPerLink)
	address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
		s.send(helloOf(messageWelcome, "b", version))
		f, err := s.receive(messageCall)
		if err != nil {
			return
		}
		require.Greater(t, f.total, uint64(len(f.payload)))
		s.send(whole(messageLeaving, 0, nil))
		if _, err = s.receive(messageLastCall); err == nil {
			begun <- s
		}
		_, _ = s.receive(99)
	})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	_, err := c.Route("s", 1).CallToolRaw(within(t), "s/x", make([]byte, 3*framing.MaxChunk))
	requireNotSent(t, err, "the node is leaving")
	require.ErrorIs(t, err, ErrLeaving)
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	<-begun
	require.ErrorIs(t, c.Reachable(), ErrLeaving)
}

// TestLeave_refuses_late_calls: a call that has found the link before the server said that it is leaving is
// not sent after that.
func TestLeave_refuses_late_calls(t *testing.T) {
	s, _ := clientInMemory(t)
	s.leaving()
	p := &pending{number: 1, waiting: &s.link.client.reportBytes, wake: make(chan struct{}, 1)}
	_, err := s.call(within(t), p, &call{method: methodTool, server: "s", target: "s/x"})
	requireNotSent(t, err, "the node is leaving")
}
