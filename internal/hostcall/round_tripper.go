package hostcall

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// bodyBufferSize is how many bytes of a body one Read gets.
const bodyBufferSize = 8 << 10

// HeldRequests counts the requests that RoundTrippers of the host still hold although the
// contexts of the requests have ended. Safe for concurrent use.
type HeldRequests struct{ n atomic.Int64 }

// Count returns the current number.
func (h *HeldRequests) Count() int { return int(max(h.n.Load(), 0)) }

// watch counts a request from the end of ctx until returned is called.
func (h *HeldRequests) watch(ctx context.Context) (returned func()) {
	stop := context.AfterFunc(ctx, func() { h.n.Add(1) })
	return func() {
		if !stop() {
			h.n.Add(-1)
		}
	}
}

// RoundTripper sends requests through a RoundTripper of the host, and keeps their
// deadlines: RoundTrip, and Read of a body, return when the context of the request ends,
// even if those of the host do not. Then the host's are left behind in a goroutine, which
// closes a late response. Held counts them.
//
// net/http demands of a RoundTripper that it honours the context of its request. This type
// is for one that does not.
type RoundTripper struct {
	Base http.RoundTripper
	Held *HeldRequests
}

// RoundTrip implements http.RoundTripper. The context of the request that the host gets ends
// with the body, too.
func (t *RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	resp, err := Wait(ctx, "RoundTripper", closeResponse, func(ctx context.Context) (*http.Response, error) {
		defer t.Held.watch(ctx)()
		return t.Base.RoundTrip(req.WithContext(ctx))
	})
	switch {
	case err != nil:
		closeResponse(resp)
		cancel()
		return nil, err
	case resp == nil || resp.Body == nil || resp.Body == http.NoBody:
		cancel()
		return resp, nil
	}
	own := *resp // the host may return the same response each time
	own.Body = t.pipe(ctx, cancel, resp.Body)
	return &own, nil
}

// closeResponse closes the body of a response that nobody reads.
func closeResponse(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_ = Call("response body", resp.Body.Close)
	}
}

// pipe returns a body that a goroutine copies from the host's. It ends with ctx.
func (t *RoundTripper) pipe(ctx context.Context, cancel context.CancelFunc, host io.ReadCloser) io.ReadCloser {
	r, w := io.Pipe()
	var closing sync.Once
	closeHost := func() { closing.Do(func() { _ = Call("response body", host.Close) }) }
	stop := context.AfterFunc(ctx, func() {
		_ = w.CloseWithError(ctx.Err())
		closeHost()
	})
	go func() {
		returned := t.Held.watch(ctx)
		err := goexitError("response body")
		defer func() {
			stop()
			closeHost()
			returned()                // before the reader sees the end, and closes
			_ = w.CloseWithError(err) // nil: the end of the body
			cancel()
		}()
		_, err = ValueHere("response body", func() (int64, error) {
			return io.CopyBuffer(w, struct{ io.Reader }{host}, make([]byte, bodyBufferSize))
		})
	}()
	return &pipedBody{r, cancel}
}

// pipedBody is the end of the pipe that the sender of the request reads.
type pipedBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer. It does not wait for the host's body.
func (b *pipedBody) Close() error {
	err := b.PipeReader.Close()
	b.cancel()
	return err
}
