package inbound

const (
	// MaxHeldBytes is how many bytes of requests, or of notifications, of one session may
	// wait at a time.
	MaxHeldBytes = 16 << 20
	// MaxRefusal bounds the id of a request in bytes, because the answer repeats it.
	MaxRefusal = 4 << 10
)

// CodeTooManyRequests is from the range of error codes that JSON-RPC 2.0 leaves to
// implementations (section 5.1).
const CodeTooManyRequests = -32000

// Allowance bounds the messages that wait, by their number (Max) and by their size
// (MaxHeldBytes). A single message may have any size. The owner guards it.
type Allowance struct{ Max, Count, bytes int }

// Acquire reserves room for a message of size bytes. It reports false without room.
func (a *Allowance) Acquire(size int) bool {
	if a.Count >= a.Max || a.Count > 0 && a.bytes+size > MaxHeldBytes {
		return false
	}
	a.Count++
	a.bytes += size
	return true
}

// Release gives back the room that Acquire reserved.
func (a *Allowance) Release(size int) {
	a.Count--
	a.bytes -= size
}
