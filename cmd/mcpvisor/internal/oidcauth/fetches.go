package oidcauth

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// fetches makes the requests to an issuer. Each token with an unknown key causes one, so they are
// bounded: strangers can send such tokens.
type fetches struct {
	inner    http.RoundTripper
	rate     *rate.Limiter
	failures atomic.Int64 // requests without an answer of the issuer
}

const (
	// fetchBurst requests may follow one another at once, and after them one each fetchInterval.
	fetchBurst    = 10
	fetchInterval = 5 * time.Second
	// maxAnswerBytes bounds an answer.
	maxAnswerBytes = 1 << 20
)

func newFetches(inner http.RoundTripper) *fetches {
	return &fetches{inner: inner, rate: rate.NewLimiter(rate.Every(fetchInterval), fetchBurst)}
}

var (
	errManyFetches = errors.New("the keys were fetched a moment ago")
	errUnsafe      = errors.New("its keys are at an address that is not https")
	errLong        = errors.New("the answer is longer than 1 MiB")
	errStatus      = errors.New("it has answered with an error")
)

func (f *fetches) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isSafe(r.URL) {
		return nil, errUnsafe
	}
	if !f.rate.Allow() {
		return nil, errManyFetches
	}
	response, err := f.inner.RoundTrip(r)
	if err != nil {
		f.failures.Add(1)
		return nil, err
	}
	if response.StatusCode != http.StatusOK { // what it says is not repeated
		_ = response.Body.Close()
		f.failures.Add(1)
		return nil, errStatus
	}
	response.Body = &boundedBody{response.Body, maxAnswerBytes}
	return response, nil
}

// boundedBody fails beyond its bound.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errLong
	}
	return n, err
}
