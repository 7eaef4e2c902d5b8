package jsonrpc

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
