package endpoint

import (
	"io"
	"net/http"
	"time"
)

// BodyTimeout bounds the wait for the body of a response whose status has said what matters:
// an error status, a redirect, a rejected token.
const BodyTimeout = time.Second

// LimitTime closes a body after BodyTimeout, so that a Read of it fails, unless the timer is
// stopped before.
func LimitTime(body io.Closer) *time.Timer {
	return time.AfterFunc(BodyTimeout, func() { _ = body.Close() })
}

// ReadErrorBody returns the text of an error status: its first MaxErrorBody bytes, as far as
// they arrive within BodyTimeout. It does not close the body.
func ReadErrorBody(resp *http.Response) []byte {
	defer LimitTime(resp.Body).Stop()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, MaxErrorBody))
	return text
}

// drain reads a body to its end, so that its connection can be reused, and closes it. It
// gives up after BodyTimeout or MaxErrorBody bytes.
func drain(body io.ReadCloser) {
	late := LimitTime(body)
	_, _ = io.CopyN(io.Discard, body, MaxErrorBody)
	late.Stop()
	_ = body.Close()
}
