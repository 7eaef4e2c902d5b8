package records

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Version is the version of the files that this package writes. It reads this one only.
const Version = 1

// Kind says what a [Record] is about.
type Kind string

const (
	// KindCall: a call has ended.
	KindCall Kind = "call"
	// KindEvent: something has happened to a server. Event and Details are set.
	KindEvent Kind = "event"
	// KindApproval: a call that a rule asks about was decided. ErrorKind is empty if it was approved.
	KindApproval Kind = "approval"
	// KindStart: the writer was opened. Without a KindEnd before it, it follows a crash.
	KindStart Kind = "start"
	// KindEnd: the writer was closed.
	KindEnd Kind = "end"
	// KindGap: Lost records were dropped before this one.
	KindGap Kind = "gap"
	// KindRepair: Lost bytes at the end, of lines that were not written whole, were cut off after a crash.
	KindRepair Kind = "repair"
	// KindSegment is the first line of each file. FileVersion and Previous are set, and Details has the servers that are ready, or
	// should be, then.
	KindSegment Kind = "segment"
)

// EventKinds are the kinds of records that say what happened: all but calls and the first lines of files. The slice is the caller's.
func EventKinds() []Kind {
	return []Kind{KindEvent, KindApproval, KindStart, KindEnd, KindGap, KindRepair}
}

// Record is one line of a file. In JSON, durations are nanoseconds. Texts of peers are bounded, and secrets are masked.
type Record struct {
	// Seq numbers the records of a directory, from 1, without a gap. The writer sets it.
	Seq uint64 `json:"seq"`
	// Time is when a call ended, or an event happened. The zero Time becomes the present one.
	Time time.Time `json:"time"`
	// Kind says what the record is about.
	Kind Kind `json:"kind"`

	// Server is the name of the server, and Epoch its incarnation.
	Server string `json:"server,omitempty"`
	Epoch  uint64 `json:"epoch,omitempty"`
	// Method is the JSON-RPC method, and Target the server's own name of the tool or prompt, or the URI.
	Method string `json:"method,omitempty"`
	Target string `json:"target,omitempty"`
	// Client is the name that the client of a gateway gave itself. Principal is the one that the
	// gateway has authenticated, or that of the call's key.
	Client    string `json:"client,omitempty"`
	Principal string `json:"principal,omitempty"`
	// Outcome says whether the server has seen the request; OutcomeAnswered if the call did not fail.
	Outcome mcpvisor.Outcome `json:"outcome,omitempty"`
	// ErrorKind is the kind of the error. ToolError: the tool ran and failed by itself.
	ErrorKind mcpvisor.ErrorKind `json:"errorKind,omitempty"`
	ToolError bool               `json:"toolError,omitempty"`
	// Took is how long the call took.
	Took time.Duration `json:"tookNs,omitempty"`
	// ResultBytes is the length of the result.
	ResultBytes int `json:"resultBytes,omitempty"`
	// Arguments are those of the call; if a mask has made something else than JSON of them, a text. ArgumentsDigest is their
	// keyed digest. Which of them is set is up to [Options].
	Arguments       json.RawMessage `json:"arguments,omitempty"`
	ArgumentsDigest string          `json:"argumentsDigest,omitempty"`
	// ArgumentsBytes is set, and neither of them, if the arguments were longer than 1 MiB, or than [Query].MaxArguments.
	ArgumentsBytes int `json:"argumentsBytes,omitempty"`

	// Event is the kind of the event, and Details is all of it.
	Event   mcpvisor.EventKind `json:"event,omitempty"`
	Details json.RawMessage    `json:"details,omitempty"`
	// Text says in one line why a call failed, or what happened.
	Text string `json:"text,omitempty"`
	// Lost counts what is missing before this record.
	Lost uint64 `json:"lost,omitempty"`

	// FileVersion is [Version], and Previous the hash of the last line before this file.
	FileVersion int    `json:"version,omitempty"`
	Previous    string `json:"previous,omitempty"`
}

// hash is that of a line: of the hash before it, and its content.
type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

func parseHash(text string) (h hash, err error) {
	if n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*len(h))])); err != nil || n != len(h) || len(text) != 2*len(h) {
		return h, errors.New("it has no hash")
	}
	return h, nil
}

// after returns the hash of a line with this content after one with the hash h.
func (h hash) after(content []byte) hash {
	d := sha256.New()
	d.Write(h[:])
	d.Write(content)
	return hash(d.Sum(nil))
}

const (
	hashStart = `,"hash":"`
	hashEnd   = `"}`
	hashBytes = len(hashStart) + 2*sha256.Size + len(hashEnd)
)

// maxLineBytes bounds a line: arguments of 1 MiB as a JSON text, which may be six times as long, and the rest.
const maxLineBytes = 8 << 20

// appendLine appends the line of a record, and returns its hash.
func appendLine(b []byte, r *Record, previous hash) ([]byte, hash, error) {
	content, err := json.Marshal(r)
	if err == nil && len(content)+hashBytes >= maxLineBytes {
		err = fmt.Errorf("a record of %d bytes is longer than %d", len(content), maxLineBytes-hashBytes)
	}
	if err != nil {
		return b, previous, err
	}
	h := previous.after(content)
	b = append(b, content[:len(content)-1]...)
	b = append(b, hashStart...)
	b = hex.AppendEncode(b, h[:])
	return append(b, hashEnd+"\n"...), h, nil
}

// splitLine returns the content of a line without its newline, and the hash that it says it has.
func splitLine(line []byte) (content []byte, h hash, err error) {
	at := len(line) - hashBytes
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(hashStart)) || !bytes.HasSuffix(line, []byte(hashEnd)) {
		return nil, h, errors.New("it is not a whole record")
	}
	h, err = parseHash(string(line[at+len(hashStart) : len(line)-len(hashEnd)]))
	return append(bytes.Clone(line[:at]), '}'), h, err
}

// check reads a line that must be the record after one with this number and hash.
func check(line []byte, seq uint64, previous hash) (r Record, h hash, err error) {
	content, h, err := splitLine(line)
	if err == nil {
		err = unmarshal(content, &r)
	}
	switch {
	case err != nil:
	case r.Seq != seq+1 && previous.after(content) != h:
		err = fmt.Errorf("it has the number %d, and %d should follow: a line was removed, inserted or moved, or this one was changed", r.Seq, seq+1)
	case previous.after(content) != h:
		err = errors.New("its hash is not that of its content and of the line before it: it was changed, or another was put in its place")
	case r.Seq != seq+1:
		err = fmt.Errorf("it has the number %d, and %d should follow", r.Seq, seq+1)
	}
	return r, h, err
}
