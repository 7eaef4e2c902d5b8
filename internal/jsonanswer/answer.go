// Package jsonanswer writes the answers of HTTP handlers as JSON, and reads the bodies of
// requests, in bounded memory. A reader that does not read cannot make the process hold more
// than the [Room] of a handler, one answer that is being encoded, and [SmallBytes] for each
// request.
//
//	room.Answer(w, r, http.StatusOK, func(e *jsonanswer.Encoder) {
//		e.Field("server", name)
//		jsonanswer.List(e, "tools", client.AllTools(), func(t mcpvisor.Tool) any { return t })
//	})
package jsonanswer

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"sync"
	"time"
)

const (
	// SmallBytes is the size up to which an answer takes no room.
	SmallBytes = 64 << 10
	// answerTimeout and slowestReader bound the time to write an answer: the first, and
	// the time that it takes at this many bytes per second.
	answerTimeout = 30 * time.Second
	slowestReader = 512 << 10
)

// ErrNoRoom says that too many bytes are held for other readers. It may be tried again.
var ErrNoRoom = errors.New("large answers for other readers are in memory; try again later")

// Room bounds the bytes that are held for readers at one time. One answer may exceed it while
// nothing else is held, so that no answer is impossible. Safe for concurrent use.
type Room struct {
	limit    int
	encoding chan struct{} // holds a value while an answer is encoded

	mu   sync.Mutex
	held int
}

// NewRoom returns a room of limit bytes.
func NewRoom(limit int) *Room { return &Room{limit: limit, encoding: make(chan struct{}, 1)} }

// Held returns how many bytes are held now.
func (r *Room) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// Take holds bytes until Return. It reports false if there is no room for them.
func (r *Room) Take(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held > 0 && bytes > r.limit-r.held {
		return false
	}
	r.held += bytes
	return true
}

// Return returns bytes that Take held.
func (r *Room) Return(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= bytes
}

// left returns how many bytes Take would hold.
func (r *Room) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == 0 {
		return int(^uint(0) >> 1)
	}
	return max(0, r.limit-r.held)
}

// Encode returns what build adds, as one JSON value. One value is encoded at a time. The
// error is ErrNoRoom, that of ctx, or that of a value that is not JSON. The caller calls
// Release.
func (r *Room) Encode(ctx context.Context, build func(*Encoder)) (*Answer, error) {
	select {
	case r.encoding <- struct{}{}:
		defer func() { <-r.encoding }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e := &Encoder{ctx: ctx, most: max(r.left(), SmallBytes)}
	build(e)
	if e.fields > 0 {
		e.add([]byte("}"))
	}
	e.add([]byte("\n"))
	if e.err != nil {
		return nil, e.err
	}
	a := &Answer{parts: e.parts, size: e.size}
	if e.size > SmallBytes {
		if !r.Take(e.size) { // what is held without encoding has grown meanwhile
			return nil, ErrNoRoom
		}
		a.room = r
	}
	return a, nil
}

// Answer is an encoded value. It belongs to one goroutine.
type Answer struct {
	parts [][]byte
	size  int
	room  *Room // nil if it takes none
}

// Write writes the answer, and releases it. Too slow a reader loses its connection.
func (a *Answer) Write(w http.ResponseWriter, status int) {
	defer a.Release()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	SetDeadline(w, a.size)
	w.WriteHeader(status)
	for _, part := range a.parts {
		if _, err := w.Write(part); err != nil {
			return // a reader that has gone needs no answer
		}
	}
}

// Release returns the room of the answer. Calling it twice is harmless.
func (a *Answer) Release() {
	if a.room != nil {
		a.room.Return(a.size)
	}
	a.room, a.parts = nil, nil
}

// SetDeadline bounds the time to write an answer of that many bytes. The HTTP server ends the
// deadline with the request. Not each writer has deadlines.
func SetDeadline(w http.ResponseWriter, bytes int) {
	limit := answerTimeout + time.Duration(bytes/slowestReader)*time.Second
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
}

// chunkBytes is the size of the parts that small pieces are collected in.
const chunkBytes = 32 << 10

// Encoder collects one JSON value: either by one call of Value, or an object by calls of Field
// and List. After an error it adds nothing.
type Encoder struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the call of Encode
	most   int             // bytes
	parts  [][]byte
	size   int
	fields int
	err    error
}

// Value adds the whole value.
func (e *Encoder) Value(v any) { e.encode(v) }

// Field adds a member of the object.
func (e *Encoder) Field(name string, v any) {
	e.name(name)
	e.encode(v)
}

// List adds a member of the object that is a list. It stops when there is no room for what
// follows, before that is encoded.
func List[T any](e *Encoder, name string, list iter.Seq[T], value func(T) any) {
	e.name(name)
	separator := []byte("[")
	for one := range list {
		if e.err != nil {
			return
		}
		e.add(separator)
		e.encode(value(one))
		separator = []byte(",")
	}
	if separator[0] == '[' {
		e.add(separator)
	}
	e.add([]byte("]"))
}

func (e *Encoder) name(name string) {
	separator := ","
	if e.fields == 0 {
		separator = "{"
	}
	e.fields++
	key, _ := json.Marshal(name) // text always marshals
	e.add([]byte(separator))
	e.add(append(key, ':'))
}

func (e *Encoder) encode(v any) {
	if e.err != nil {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		e.err = err
		return
	}
	e.add(data)
}

// add appends JSON text, unless that is more than there is room for.
func (e *Encoder) add(text []byte) {
	switch {
	case e.err != nil:
		return
	case e.ctx.Err() != nil:
		e.err = e.ctx.Err()
		return
	case len(text) > e.most-e.size:
		e.err, e.parts = ErrNoRoom, nil
		return
	}
	e.size += len(text)
	if len(text) >= chunkBytes {
		e.parts = append(e.parts, text)
		return
	}
	last := len(e.parts) - 1
	if last < 0 || len(text) > cap(e.parts[last])-len(e.parts[last]) {
		// It is as large as what is there already, so that a small answer has small parts.
		e.parts = append(e.parts, make([]byte, 0, min(max(len(text), e.size, 512), chunkBytes)))
		last++
	}
	e.parts[last] = append(e.parts[last], text...)
}
