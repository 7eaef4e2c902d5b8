package headerauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

const (
	// defaultTimeout bounds one run of the source.
	defaultTimeout = 10 * time.Second
	// killTimeout is how long Detach waits for a run that was canceled.
	killTimeout = 2 * time.Second
	// maxMasked is how many former headers are masked in texts of the server.
	maxMasked = 8
)

// pauses are those after a run that failed, or whose headers the server refused.
var pauses = backoff.Backoff{First: time.Second, Max: time.Minute}

// authorizer supplies the headers of one registration. Safe for concurrent use.
type authorizer struct {
	source Source // never changed

	mu       sync.Mutex // guards everything below
	headers  *headers   // nil: none yet
	running  *run       // nil: none
	pause    time.Duration
	resume   time.Time // the end of the pause
	failure  error     // of the last run; nil: it succeeded
	sessions int
	lifetime context.Context // of the sessions that are attached
	end      context.CancelFunc
	masked   []*headers // the last ones
	replacer *strings.Replacer
}

// headers are those of one run. They are never changed, and identified by their address.
type headers struct{ values http.Header }

// run is one run of the source. headers and err are set before done is closed.
type run struct {
	done    chan struct{}
	headers *headers
	err     error
}

// credential implements mcpvisor.Credential.
type credential struct {
	*headers
	renewed bool // the server had refused other headers for the same request
}

// SetHeaders implements mcpvisor.Credential.
func (c credential) SetHeaders(header http.Header, _ string, _ *url.URL, _ []byte) error {
	maps.Copy(header, c.values)
	return nil
}

// Attach implements mcpvisor.Authorizer.
func (a *authorizer) Attach(context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sessions++; a.sessions == 1 {
		a.lifetime, a.end = context.WithCancel(context.Background())
	}
}

// Detach implements mcpvisor.Authorizer. The last one ends a run.
func (a *authorizer) Detach(time.Duration) {
	a.mu.Lock()
	a.sessions--
	last, end, r := a.sessions == 0, a.end, a.running
	a.mu.Unlock()
	if !last {
		return
	}
	if end(); r != nil {
		timer := time.NewTimer(killTimeout)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
		}
	}
}

// Current implements mcpvisor.Authorizer.
func (a *authorizer) Current() mcpvisor.Credential {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.headers == nil {
		return nil
	}
	return credential{headers: a.headers}
}

// Credential implements mcpvisor.Authorizer.
func (a *authorizer) Credential(ctx context.Context) (mcpvisor.Credential, error) {
	h, err := a.fetch(ctx, nil)
	if err != nil {
		return nil, err
	}
	return credential{headers: h}, nil
}

// Answered implements mcpvisor.Authorizer.
func (a *authorizer) Answered(ctx context.Context, used mcpvisor.Credential, status int, _ http.Header) (mcpvisor.Credential, error) {
	c, ok := used.(credential)
	if !ok {
		return nil, fmt.Errorf("a credential of type %T belongs to another authorizer", used)
	}
	a.mu.Lock()
	current := c.headers == a.headers
	switch {
	case current && status != http.StatusUnauthorized:
		a.pause = 0
	case current && c.renewed:
		a.startPause()
	}
	paused := current && time.Now().Before(a.resume)
	a.mu.Unlock()
	if status != http.StatusUnauthorized || c.renewed || paused {
		return nil, nil //nolint:nilnil // the interface requires it: the answer counts
	}
	h, err := a.fetch(ctx, c.headers)
	if err != nil || h == c.headers {
		return nil, err
	}
	return credential{headers: h, renewed: true}, nil
}

// startPause makes the next run wait, longer each time. The caller holds a.mu.
func (a *authorizer) startPause() {
	a.pause = pauses.Next(a.pause)
	a.resume = time.Now().Add(a.pause)
}

// fetch returns headers other than refused, which may be nil, from memory or from a run that all
// callers share. It returns refused if the run got the same ones.
func (a *authorizer) fetch(ctx context.Context, refused *headers) (*headers, error) {
	a.mu.Lock()
	if a.headers != refused {
		defer a.mu.Unlock()
		return a.headers, nil
	}
	r := a.running
	if wait := time.Until(a.resume); r == nil && wait > 0 && a.failure != nil {
		defer a.mu.Unlock()
		return nil, unavailable(wait, a.failure)
	}
	if r == nil {
		r = &run{done: make(chan struct{})}
		a.running = r
		go a.run(cmp.Or(a.lifetime, context.Background()), r)
	}
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.headers, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// run asks the source. It is a goroutine of its own, because the call that started it may leave
// while others wait.
func (a *authorizer) run(lifetime context.Context, r *run) {
	ctx, cancel := context.WithTimeout(lifetime, cmp.Or(a.source.Timeout, defaultTimeout))
	defer cancel()
	values, err := a.source.fetch(ctx)
	if ctx.Err() != nil && lifetime.Err() == nil {
		err = errors.New("it did not end in time; make it faster, or raise Timeout")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	defer close(r.done)
	a.running, a.failure = nil, nil
	switch {
	case lifetime.Err() != nil: // it says nothing about the source
		r.err = unavailable(0, errors.New("the session ended"))
	case err != nil:
		a.startPause()
		a.failure = fmt.Errorf("no headers could be obtained: %w", err)
		if a.replacer != nil { // stderr may hold former headers
			a.failure = errors.New(a.replacer.Replace(a.failure.Error()))
		}
		r.err = unavailable(a.pause, a.failure)
	case a.headers != nil && maps.EqualFunc(values, a.headers.values, slices.Equal[[]string]):
		a.startPause()
		r.headers = a.headers
	default:
		a.headers = &headers{values}
		r.headers = a.headers
		a.mask(r.headers)
	}
}

// unavailable is the error of headers that cannot be obtained now.
func unavailable(retryAfter time.Duration, err error) error {
	return &mcpvisor.AuthUnavailable{RetryAfter: retryAfter, Err: err, Hint: "run the program of the headers by hand, and see why it fails"}
}

// mask makes Redact mask these headers, too. The caller holds a.mu.
func (a *authorizer) mask(h *headers) {
	a.masked = append(slices.Clone(a.masked[max(0, len(a.masked)-maxMasked+1):]), h)
	var all secret.List
	for _, h := range a.masked {
		for name, values := range h.values {
			all.AddHeader(name, values[0])
		}
	}
	a.replacer = all.Replacer()
}

// Redact implements mcpvisor.Authorizer.
func (a *authorizer) Redact(text string) string {
	a.mu.Lock()
	replacer := a.replacer
	a.mu.Unlock()
	if replacer == nil {
		return text
	}
	return replacer.Replace(text)
}
