package jsonrpc

import (
	"context"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// Large messages of a server share Limits.Buffer while they are read, and while
// their results are decoded. Messages below largeLine do not count.

const (
	// BufferTimeout is how long a stream that carries every message of a server
	// waits for room for one of them. Then that message is skipped: callers that do
	// not take their answers must not hold up all others.
	BufferTimeout = 3 * time.Second
	// BufferSignInterval is how often a stream that waits notes that the server is alive.
	BufferSignInterval = 200 * time.Millisecond
)

// ErrNoRoom is why an answer was skipped that found no room in Limits.MaxBufferBytes.
var ErrNoRoom = errors.New("the answer was skipped: other large answers of the server are being read or decoded")

// NoRoomError is the error of a call whose answer was skipped because of that.
func NoRoomError() *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.KindOverloaded, Outcome: mcpvisor.OutcomeAnswered,
		Cause: ErrNoRoom, Hint: "make fewer calls with large answers at a time, or raise Limits.MaxBufferBytes"}
}

// GrowShare is Grow for a stream that carries every message of a server. sign
// is called while it waits.
func GrowShare(s *budget.Share, dead <-chan struct{}, bytes int, sign func()) bool {
	for began := time.Now(); ; sign() {
		ctx, cancel := context.WithTimeout(context.Background(), BufferSignInterval)
		err := s.Grow(ctx, dead, bytes)
		ended := ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return true
		case ended, time.Since(began) > BufferTimeout:
			return false
		}
	}
}
