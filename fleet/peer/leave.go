package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// A server that ends says so on each stream, and executes what was sent before its clients knew:
//
//	server → client  leaving    further calls are refused
//	client → server  last call  no further call comes
//	server           answers what it has, and ends the stream
//
// So no call is lost between two nodes that can reach each other. A client of the version before does
// not answer, and its calls in flight have an unknown outcome.

// ErrLeaving is the cause of a call that was not sent because the other node is leaving.
var ErrLeaving = errors.New("the node is leaving")

// Shutdown lets the clients make no further calls, answers those that have come, and closes all
// connections. When ctx ends, it continues as [Server.Close]. It returns when nothing is left.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.leaving = true
	for t := range s.streams {
		t.send(messageLeaving, 0, nil)
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

// join notes a stream whose client was greeted.
func (s *Server) join(t *serverStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[t] = true
	if s.leaving {
		t.send(messageLeaving, 0, nil)
	}
}

func (s *Server) leave(t *serverStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, t)
}

// endIfAnsweredLocked ends the stream when its client makes no further calls and has all answers.
func (t *serverStream) endIfAnsweredLocked() {
	if t.lastCall && t.held == 0 && t.refusals == 0 {
		t.out.endWhenEmpty()
	}
}

// leaving follows the message that the server is leaving. Calls of which the server cannot have all
// bytes are taken back.
func (s *clientStream) leaving() {
	s.link.leaving.Store(true)
	s.left.Store(true)
	s.out.refuseCalls()
	s.mu.Lock()
	for _, p := range s.pending {
		if s.out.withdraw(p.sent) {
			p.finish(nil, refused(p.server, p.epoch, errLeaving(s.link.client.config.Node)))
		}
	}
	s.mu.Unlock()
	s.send(messageLastCall, 0, nil)
}

func errLeaving(node string) error {
	return fmt.Errorf("node %q cannot be reached: %w", node, ErrLeaving)
}

// isOver reports whether the stream has ended as the server has announced. The others of the link may
// still bring answers then.
func (s *clientStream) isOver() bool { return s.left.Load() && errors.Is(s.err, io.EOF) }
