package oauth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/guard"
)

const (
	// mostJSON is the longest document that is read.
	mostJSON = 1 << 20
	// mostRedirects is how many redirects of a metadata document are followed.
	mostRedirects = 5
)

// web makes the requests to authorization servers and for metadata. They are
// rare, so that no connection is kept.
type web struct {
	server  *url.URL
	headers map[string]string
	client  *http.Client
	dialer  dialer
}

func newWeb(server *url.URL, spec *mcpvisor.HTTP) *web {
	w := &web{server: server, headers: spec.Headers, dialer: dialer{anchors: anchorsOf(server, spec)}}
	var base http.RoundTripper = http.DefaultTransport
	if spec.Client != nil && spec.Client.Transport != nil {
		base = spec.Client.Transport
	}
	if t, ok := base.(*http.Transport); ok {
		own := t.Clone()
		own.DisableKeepAlives = true
		w.dialer.check(own, t)
		base = own
	} else {
		base = guard.NewRoundTripper(base, new(guard.Abandoned))
	}
	w.client = &http.Client{Transport: &gate{web: w, base: base}, CheckRedirect: w.followed}
	return w
}

// settle waits until a RoundTripper of the host's has let go of every request, no
// longer than limit.
func (w *web) settle(limit time.Duration) {
	if t, ok := w.client.Transport.(*gate).base.(*guard.RoundTripper); ok {
		t.Settle(limit)
	}
}

// gate looks at every request, redirected ones included.
type gate struct {
	web  *web
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The headers of the spec go to the
// server's own origin only.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	h, err := g.web.hopTo(req.Context(), req.URL)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		if _, passes := mayPass(err); passes {
			return nil, err
		}
		return nil, &barred{err}
	}
	req = req.WithContext(context.WithValue(guard.Trace(req.Context()), hopKey{}, h))
	if req.URL.Scheme == g.web.server.Scheme && strings.EqualFold(req.URL.Host, g.web.server.Host) {
		req = req.Clone(req.Context())
		for name, value := range g.web.headers {
			switch http.CanonicalHeaderKey(name) {
			case "Host", "Accept", "Content-Type", "Content-Length":
			default:
				req.Header.Set(name, value)
			}
		}
	}
	return g.base.RoundTrip(req)
}

// barred marks the errors of requests that are not let out.
type barred struct{ err error }

func (b *barred) Error() string { return b.err.Error() }
func (b *barred) Unwrap() error { return b.err }

// errNoRedirect: a secret is not sent on to wherever somebody points.
var errNoRedirect = errors.New("the answer is a redirect, which is not followed")

func (w *web) followed(req *http.Request, via []*http.Request) error {
	switch first := via[0]; {
	case len(via) > mostRedirects:
		return &barred{fmt.Errorf("more than %d redirects", mostRedirects)}
	case req.Context().Value(nearby{}) != nil && origin(first.URL) == origin(req.URL):
		return nil
	case first.Method != http.MethodGet:
		return &barred{errNoRedirect}
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return &barred{errors.New("a redirect leaves https")}
	}
	return nil
}

// nearby in a request's context lets it follow redirects within its origin.
type nearby struct{}

// allowed checks the scheme of an address that a server named: https, or plain
// http where the MCP server itself is reached that way (its own host, or this
// machine for a server on this machine). To where it may lead is for the dialer to
// check.
func (w *web) allowed(u *url.URL) error {
	switch {
	case u.Host == "" || u.User != nil:
		return fmt.Errorf("the address %q is not usable", bare(u))
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && w.server.Scheme == "http" && strings.EqualFold(u.Hostname(), w.server.Hostname()):
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()) && isLoopback(w.server.Hostname()):
		return nil
	}
	return fmt.Errorf("the address %q is not https", bare(u))
}

// hopTo is the request to an address, if that is allowed as far as its text tells.
func (w *web) hopTo(ctx context.Context, u *url.URL) (*hop, error) {
	if err := w.allowed(u); err != nil {
		return nil, err
	}
	return w.dialer.hopTo(ctx, u)
}

func (w *web) allowedText(ctx context.Context, name, text string) error {
	u, err := url.Parse(text)
	if err != nil || text == "" {
		return fmt.Errorf("the %s is missing or cannot be read", name)
	}
	if _, err := w.hopTo(ctx, u); err != nil {
		return fmt.Errorf("the %s: %w", name, err)
	}
	return nil
}

// errAbsent: there is no such document.
var errAbsent = errors.New("not there")

// document reads a JSON document. errAbsent means that there is none.
func (w *web) document(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("the address cannot be read: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	status, contentType, body, err := w.do(req)
	switch {
	case err != nil:
		return err
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return errAbsent
	case status != http.StatusOK:
		return &passing{err: fmt.Errorf("%s answered HTTP %d", bare(req.URL), status)}
	case json.Unmarshal(body, into) != nil:
		if kind, _, _ := mime.ParseMediaType(contentType); kind == "application/json" {
			return fmt.Errorf("what %s answered cannot be read", bare(req.URL))
		}
		return errAbsent // a page for people, as many sites answer whatever is asked
	}
	return nil
}

// do makes one request and reads the whole answer.
func (w *web) do(req *http.Request) (status int, contentType string, body []byte, err error) {
	resp, err := w.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the wrapping names the whole URL
		}
		err = fmt.Errorf("%s: %w", req.URL.Host, err)
		if isFinal(err) {
			return 0, "", nil, err
		}
		return 0, "", nil, &passing{err: err}
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, mostJSON+1))
	switch {
	case err != nil:
		return 0, "", nil, &passing{err: fmt.Errorf("%s: the answer broke off: %w", req.URL.Host, err)}
	case len(body) > mostJSON:
		return 0, "", nil, fmt.Errorf("%s: the answer is longer than %d bytes", req.URL.Host, mostJSON)
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 {
		return resp.StatusCode, "", nil, &passing{after: retryAfter(resp.Header), err: fmt.Errorf("%s answered HTTP %d", req.URL.Host, resp.StatusCode)}
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), body, nil
}

// isFinal: the request was not let out, or whoever answers is not who is meant.
// Everything else on the way to a server may pass.
func isFinal(err error) bool {
	var b *barred
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	return errors.As(err, &b) || errors.As(err, &certificate) || errors.As(err, &plain) || errors.Is(err, http.ErrSchemeMismatch)
}

// longestRetryAfter bounds what a server may ask for.
const longestRetryAfter = 10 * time.Minute

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 1<<20))*time.Second, longestRetryAfter)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// bare is an address that can be shown.
func bare(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.ForceQuery, v.Fragment, v.RawFragment = nil, "", false, "", ""
	return v.String()
}
