package jsonrpc

const (
	// ReadBufferSize is small because an idle server should cost little; it grows
	// for a long line and is given away with it.
	ReadBufferSize = 8 << 10
)

const (
	// LargeMessage is where a line is worth a buffer of its own, and where a pipe
	// of the usual size begins to hold a server up.
	LargeMessage = 64 << 10
)

const (
	// EdgeSize is how much of either end of an oversize line is kept, to find out
	// which call it would have answered.
	EdgeSize = 512
)

// ClipEnds keeps the beginning and the end of held followed by more.
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
