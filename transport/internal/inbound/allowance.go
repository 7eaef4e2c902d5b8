package inbound

const (
	// MaxHeldBytes is how many bytes of requests, or of notifications, may wait at a time.
	MaxHeldBytes = 16 << 20
)

// CodeTooManyRequests is of those that JSON-RPC leaves to implementations.
const CodeTooManyRequests = -32000

// MaxRefusal bounds a refusal, which repeats an id of the server's choice.
const MaxRefusal = 4 << 10

// Allowance bounds messages by number, most, and size. One may be of any size, if
// it is alone.
type Allowance struct{ Max, Count, bytes int }

// Acquire reports whether there is room for one more of the given size, in bytes, and
// takes it.
func (a *Allowance) Acquire(size int) bool {
	if a.Count >= a.Max || a.Count > 0 && a.bytes+size > MaxHeldBytes {
		return false
	}
	a.Count++
	a.bytes += size
	return true
}

// Release gives back what Take took.
func (a *Allowance) Release(size int) {
	a.Count--
	a.bytes -= size
}
