package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// A server that ends says so on each stream, and still executes the calls that were sent before its
// clients knew:
//
//	server → client  leaving    further calls are refused
//	client → server  last call  no further call comes
//	server           answers the calls that it has, and ends the stream
//
// So no call is lost between two nodes that can reach each other. A client of the version before does
// not send the last call message: its calls in flight have an unknown outcome.

// ErrLeaving is the cause of a call that was not sent because the other node is leaving.
var ErrLeaving = errors.New("the node is leaving")

// Shutdown accepts no further calls, answers those that have come, and closes all connections. When ctx ends,
// it continues like [Server.Close]. It returns when all connections and calls have ended.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.leaving = true
	for t := range s.streams {
		t.Send(messageLeaving, 0, nil)
	}
	s.mu.Unlock()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
	}
	s.Close()
	<-stopped
}

// join adds a stream whose client was greeted.
func (s *Server) join(t *serverStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[t] = true
	if s.leaving {
		t.Send(messageLeaving, 0, nil)
	}
}

func (s *Server) leave(t *serverStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, t)
}

// endIfAnsweredLocked ends the stream when its client makes no further calls and has all answers.
func (s *serverStream) endIfAnsweredLocked() {
	if s.lastCall && s.held == 0 && s.refusals == 0 {
		s.EndWhenEmpty()
	}
}

// leaving handles the message that the server is leaving. It withdraws the calls that the server has not
// received completely.
func (s *clientStream) leaving() {
	s.link.leaving.Store(true)
	s.left.Store(true)
	s.SendNoMore(messageCall)
	s.mu.Lock()
	for _, p := range s.pending {
		if s.Withdraw(p.sent) {
			p.finish(nil, refused(p.server, p.epoch, errLeaving(s.link.client.config.Node)))
		}
	}
	s.mu.Unlock()
	s.Send(messageLastCall, 0, nil)
}

func errLeaving(node string) error {
	return fmt.Errorf("node %q cannot be reached: %w", node, ErrLeaving)
}

// isOver reports whether the stream has ended as the server has announced. The other streams of the link may
// still bring answers then.
func (s *clientStream) isOver() bool { return s.left.Load() && errors.Is(s.Err(), io.EOF) }
