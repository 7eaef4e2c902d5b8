package httpwire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// bodyStep bounds the first buffer for a body.
const bodyStep = 64 << 10

// ErrNoRoom is the error of a body whose bytes could not be reserved.
var ErrNoRoom = errors.New("the requests in flight, and what the gateway keeps for this principal, hold too many bytes; read what waits, end subscriptions or sessions")

// BodyError is the error of a body that was not read. Its status and text are the answer.
type BodyError struct {
	Status int
	Text   string
}

// Error implements error.
func (e *BodyError) Error() string { return e.Text }

// ReadBody reads the body of a request in bounded memory and time. It calls reserve with the bytes of
// each buffer before it makes the buffer. The caller gives back the reserved bytes, also after an error.
// The error is ErrNoRoom or a *BodyError. If a body was not read to its end, the connection is closed
// after the answer.
func (x *Exchange) ReadBody(r *http.Request, reserve func(bytes int) bool) (body []byte, reserved int, err error) {
	_ = x.control.SetReadDeadline(time.Now().Add(x.limits.ReadTimeout))
	most := int64(x.limits.MaxBodyBytes)
	from := http.MaxBytesReader(x.w, r.Body, most) // closes the connection beyond most
	if r.ContentLength > most {
		x.w.Header().Set("Connection", "close")
		return nil, 0, &BodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has %d bytes, and %d is the most", r.ContentLength, most)}
	}
	body = make([]byte, 0, min(max(r.ContentLength, 0), bodyStep)+bytes.MinRead)
	for {
		if len(body) == cap(body) || reserved == 0 { // the buffer doubles
			step := max(cap(body), bytes.MinRead)
			if !reserve(step) {
				x.w.Header().Set("Connection", "close")
				return nil, reserved, ErrNoRoom
			}
			if reserved += step; len(body) == cap(body) {
				body = slices.Grow(body, step)
			}
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch tooLarge := new(http.MaxBytesError); {
		case err == io.EOF:
			_ = x.control.SetReadDeadline(time.Time{})
			return body, reserved, nil
		case errors.As(err, &tooLarge):
			return nil, reserved, &BodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", most)}
		case err != nil:
			x.w.Header().Set("Connection", "close")
			return nil, reserved, &BodyError{http.StatusRequestTimeout, "the body did not arrive in time"}
		}
	}
}
