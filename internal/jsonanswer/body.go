package jsonanswer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// copies is how many bytes a body takes for each byte that has arrived: the buffer before and
// after it grows, and what is decoded from it.
const copies = 4

// Body is the body of a request. It takes room as it arrives. It belongs to one goroutine.
type Body struct {
	source io.Reader
	room   *Room
	held   int
}

// NewBody returns the body of a request, of at most that many bytes. A longer one has an
// *http.MaxBytesError. The caller calls Release when it no longer uses the content.
func (r *Room) NewBody(w http.ResponseWriter, request *http.Request, most int64) *Body {
	return &Body{source: http.MaxBytesReader(w, request.Body, most), room: r}
}

// Read implements io.Reader. Without room for what has arrived its error is ErrNoRoom.
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	if n > 0 && !b.room.Take(copies*n) {
		return 0, ErrNoRoom
	}
	b.held += copies * n
	return n, err
}

// Release returns the room of the body. Calling it twice is harmless.
func (b *Body) Release() {
	b.room.Return(b.held)
	b.held = 0
}

// Decode decodes a body that is one JSON object with the fields of a struct, and nothing
// after it.
func Decode[T any](b *Body) (T, error) {
	var value *T // nil after null
	var none T
	decoder := json.NewDecoder(b)
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(&value); {
	case errors.Is(err, io.EOF):
		return none, errors.New("it is empty; send a JSON object")
	case err != nil:
		return none, err
	case value == nil:
		return none, errors.New("it is null; send a JSON object")
	}
	end := decoder.InputOffset()
	_, err := decoder.Token()
	if syntax := (*json.SyntaxError)(nil); err == nil || errors.As(err, &syntax) {
		return none, fmt.Errorf("something follows the JSON object, which ends at byte %d; send one object", end)
	}
	if !errors.Is(err, io.EOF) {
		return none, err
	}
	return *value, nil
}
