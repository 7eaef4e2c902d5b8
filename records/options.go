package records

import (
	"fmt"
	"time"
)

// Arguments says what is kept of the arguments of calls.
type Arguments string

// What is kept of arguments.
const (
	// ArgumentsNone: nothing. The default.
	ArgumentsNone Arguments = "none"
	// ArgumentsDigest: their HMAC-SHA256 with Options.Key, of the canonical form: whether two calls had the same arguments.
	ArgumentsDigest Arguments = "digest"
	// ArgumentsWhole: all of them, without secrets.
	ArgumentsWhole Arguments = "whole"
)

// Full says what happens when a record finds no room.
type Full string

// What happens when a record finds no room.
const (
	// FullRotate deletes the oldest file when the disk bound is reached, and drops new records that find the queue full, or
	// the disk unwritable. The default.
	FullRotate Full = "rotate"
	// FullDrop drops new records, and deletes nothing.
	FullDrop Full = "drop"
	// FullBlock has calls wait until there is room, or the writer is closed, and deletes nothing. A directory that has reached
	// its bound stops all calls, until a writer with a higher bound is opened.
	FullBlock Full = "block"
)

// Options configure a [Writer]. The zero value is usable.
type Options struct {
	// Anchor is the path of the anchor. Put it where those who can write the records cannot. Default: [AnchorPath].
	Anchor string
	// Key makes the anchor and the digests of arguments depend on a secret; at least 16 bytes. Default: none.
	Key []byte
	// Arguments says what is kept of arguments. Default: ArgumentsNone.
	Arguments Arguments
	// Mask returns a function that replaces the secrets of a server in a text, or nil if it has none. It is called when a
	// record is added. Default, and nil: nothing is masked but what the client has masked.
	Mask func(server string) func(text string) string
	// WhenFull says what happens when there is no room. Default: FullRotate.
	WhenFull Full
	// MaxBytes bounds all files of records together, in bytes; at least 16 MiB. Default: 1 GiB.
	MaxBytes int64
	// Report is called when records can no longer be written, with the reason, and with an empty text when they can again; not
	// during Close. The goroutine that writes calls it: it must not block, nor close the writer. Default: none.
	Report func(problem string)
}

const (
	defaultMaxBytes = 1 << 30
	minMaxBytes     = 16 << 20
	minKeyBytes     = 16
)

// complete sets the defaults, and says what is wrong.
func (o *Options) complete(dir string) error {
	if o.Anchor == "" {
		o.Anchor = AnchorPath(dir)
	}
	if o.Arguments == "" {
		o.Arguments = ArgumentsNone
	}
	if o.WhenFull == "" {
		o.WhenFull = FullRotate
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	switch {
	case len(o.Key) > 0 && len(o.Key) < minKeyBytes:
		return fmt.Errorf("the key of the records has %d bytes; use at least %d", len(o.Key), minKeyBytes)
	case o.Arguments != ArgumentsNone && o.Arguments != ArgumentsDigest && o.Arguments != ArgumentsWhole:
		return fmt.Errorf("records cannot keep %q of arguments; use none, digest or whole", o.Arguments)
	case o.Arguments == ArgumentsDigest && len(o.Key) == 0: // without one, short arguments could be guessed
		return fmt.Errorf("digests of arguments need a key; give one, or keep none or the whole arguments")
	case o.WhenFull != FullRotate && o.WhenFull != FullDrop && o.WhenFull != FullBlock:
		return fmt.Errorf("records cannot %q when they are full; use rotate, drop or block", o.WhenFull)
	case o.MaxBytes < minMaxBytes:
		return fmt.Errorf("the bound of the records is %d bytes; use at least %d", o.MaxBytes, minMaxBytes)
	}
	return nil
}

// Stats counts what a [Writer] has done.
type Stats struct {
	// Written is the number of the last record on disk, and Anchored that of the last one that the anchor covers.
	Written  uint64 `json:"written"`
	Anchored uint64 `json:"anchored"`
	// Dropped counts the records that found no room.
	Dropped uint64 `json:"dropped,omitempty"`
	// Bytes is the length of all files of records.
	Bytes int64 `json:"bytes"`
	// Problem is why nothing is written at present; empty while all is well.
	Problem string `json:"problem,omitempty"`
}

const (
	maxQueued      = 8192     // records in the queue
	maxQueuedBytes = 16 << 20 // of their texts and arguments
	maxArguments   = 1 << 20
	maxTextBytes   = 512
	maxDetails     = 64 << 10
	chunkBytes     = 1 << 20
	reservedBytes  = 4 << 10 // for the last records of a directory that is full
	// anchorEvery leaves half a second of the second that is promised for the disk.
	anchorEvery = 500 * time.Millisecond
	// retryEvery is the time between attempts while nothing can be written.
	retryEvery = time.Second
)
