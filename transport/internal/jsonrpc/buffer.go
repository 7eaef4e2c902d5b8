package jsonrpc

import (
	"context"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// Large messages of one server share Limits.MaxBufferBytes while they are read and while
// their results are decoded. Messages whose buffer is
// smaller than LargeMessage do not count.

const (
	// BufferTimeout is how long a stream that carries all messages of a server waits for
	// buffer room while none is returned, each time that a message needs more of it. After
	// that the message is skipped: a caller that does not read its answer must not block all
	// other callers. Callers that read slowly may: while they return room, the wait takes up
	// to bufferTimeoutMost.
	BufferTimeout     = 3 * time.Second
	bufferTimeoutMost = 15 * time.Second
	// BufferSignInterval is how often a stream that waits for room records that the server
	// is alive. The server is not silent; this client does not read.
	BufferSignInterval = 200 * time.Millisecond
)

// ErrNoRoom is the cause of a call whose answer found no room in Limits.MaxBufferBytes and
// was skipped.
var ErrNoRoom = errors.New("the answer was skipped: other large answers of the server are being read or decoded")

// NoRoomError returns the error of a call whose answer was skipped with [ErrNoRoom].
func NoRoomError() *mcpvisor.Error {
	return &mcpvisor.Error{Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeAnswered,
		Cause: ErrNoRoom, Hint: "make fewer calls with large answers at a time, or raise Limits.MaxBufferBytes"}
}

// GrowShare reserves bytes in s for one message of a stream that carries all messages of a
// server. It waits as BufferTimeout says, and calls sign every BufferSignInterval meanwhile.
// It reports false if there was no room in time, or if dead was closed.
func GrowShare(s *budget.Share, dead <-chan struct{}, bytes int, sign func()) bool {
	return s.GrowPatiently(context.Background(), dead, bytes,
		budget.Patience{Still: BufferTimeout, Most: bufferTimeoutMost, Sign: sign, Interval: BufferSignInterval})
}

const (
	// ReadBufferSize is the size of a read buffer in bytes. It is small, because an idle
	// server should cost little memory. For a long line the reader grows the buffer and
	// passes it on together with the line.
	ReadBufferSize = 8 << 10
	// LargeMessage is the length in bytes from which a message counts towards
	// Limits.MaxBufferBytes and gets a buffer of its own. A pipe usually holds 64 KiB, so
	// a server blocks when it writes more than that and the client does not read.
	LargeMessage = 64 << 10
	// EdgeSize is how many bytes of each end of an oversize message are kept. FindID looks
	// there for the id of the call that the message answers.
	EdgeSize = 512
)

// ClipEnds returns the first and the last EdgeSize bytes of the text that consists of held
// and more.
func ClipEnds(held, more []byte) (head, tail []byte) {
	head = append(head, held[:min(len(held), EdgeSize)]...)
	if room := EdgeSize - len(head); room > 0 {
		head = append(head, more[:min(len(more), room)]...)
	}
	if len(more) < EdgeSize {
		tail = append(tail, held[max(0, len(held)-(EdgeSize-len(more))):]...)
	}
	return head, append(tail, more[max(0, len(more)-EdgeSize):]...)
}
