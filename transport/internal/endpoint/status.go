package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// MaxErrorBody is how much of the body of an error status is read.
const MaxErrorBody = 64 << 10

// maxHeader bounds the header of a response. net/http's own bound is 10 MB.
const maxHeader = 1 << 20

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 24 * time.Hour

// connectError explains an error of the HTTP client. sent is whether a
// connection had been handed to the request: from then on the server may have
// seen it.
func (e *Endpoint) connectError(err error, sent bool) *HTTPError {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // the wrapping names the whole URL
	}
	if dial := dialError(err); dial != nil {
		sent = false
		if dial.Op == "proxyconnect" {
			return e.proxyUnreachableError(err)
		}
	}
	if sent {
		return e.ConnectionLost("the connection to "+e.HostPort+" broke before the answer came: ", err)
	}
	var (
		dns     *net.DNSError
		record  tls.RecordHeaderError
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		timeout net.Error
		refused *proxyRefusal
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &refused):
		return e.proxyRefusedError(refused)
	case isRefused(err):
		f := e.notSentError("nothing listens at "+e.HostPort, "start the server or correct the URL", err)
		f.Gone = true
		return f
	case errors.As(err, &dns):
		return e.notSentError(fmt.Sprintf("the host name %q cannot be resolved", dns.Name), "correct the URL or check the network", err)
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return e.notSentError(e.HostPort+" does not speak TLS", "write http:// in the URL, or the port that speaks TLS", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return e.certificateError(invalid.Cert, err)
	case errors.As(err, &verify), errors.As(err, &unknown):
		return e.notSentError("the certificate of "+e.HostPort+" is not trusted: "+err.Error(), "mend the certificate, or give a Client that trusts it", err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return e.notSentError(e.HostPort+" did not accept the connection in time", "check the network and the URL", err)
	}
	return e.notSentError("cannot connect to "+e.HostPort+": "+err.Error(), "check the URL and the network", err)
}

// certificateError is the fault of a certificate that is not valid at this time.
func (e *Endpoint) certificateError(cert *x509.Certificate, err error) *HTTPError {
	if now := time.Now(); now.Before(cert.NotBefore) {
		return e.notSentError(fmt.Sprintf("the certificate of %s is not valid yet: it is from %s on", e.HostPort, cert.NotBefore.UTC().Format(time.RFC3339)),
			"check the clock of this machine", err)
	}
	return e.notSentError(fmt.Sprintf("the certificate of %s has expired: it was valid until %s", e.HostPort, cert.NotAfter.UTC().Format(time.RFC3339)),
		"renew the certificate of the server", err)
}

// dialError finds the error of making a connection, after which it is certain
// that the request was not written: an earlier attempt of net/http on a pooled
// connection is only repeated if nothing of a POST had been written there.
//
// Do not ask it of a request whose context has ended: its error is the cause
// of that, which may be a dial too, but another's.
func dialError(err error) *net.OpError {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") {
		return op
	}
	return nil
}

func isRefused(err error) bool {
	const wsaeConnRefused = syscall.Errno(10061)
	return errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" && errors.Is(err, wsaeConnRefused)
}

// StatusError explains a reply with a status that is no success and a body
// that is no answer. ref says how the request named a session.
func (e *Endpoint) StatusError(resp *http.Response, body []byte, ref SessionRef) *HTTPError {
	f := &HTTPError{
		Status:  resp.StatusCode,
		Message: statusText(resp.StatusCode),
		Kind:    mcpvisor.KindProtocol,
		Outcome: mcpvisor.OutcomeAnswered,
		Cause:   supervisor.CauseHandshake,
	}
	// A secret that is cut in two could not be found any more.
	text := printable(e.Clean(errorText(resp.Header.Get("Content-Type"), body)))
	if text = withoutStatusPrefix(text, resp.StatusCode); text != "" {
		f.Message += ": " + text
	}
	if loss := sessionLossOf(resp, body, ref); loss.lost {
		f.Lost, f.Outcome, f.Kind = true, loss.outcome, mcpvisor.KindCrashed
		return e.unknownIfHostTripper(f)
	}
	switch code := resp.StatusCode; {
	case code >= 300 && code < 400:
		f.Message = fmt.Sprintf("HTTP %d redirects to %s", code, e.Clean(describeRedirect(resp)))
		f.Hint = "if that is the endpoint, put this URL into the configuration"
	case code == http.StatusProxyAuthRequired:
		f.Kind, f.Cause, f.Permanent = mcpvisor.KindAuthRequired, supervisor.CauseAuth, true
		f.Hint = "a proxy on the way wants credentials; put its user and password into the proxy URL (HTTP_PROXY)"
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		f.Kind, f.Cause, f.Permanent = mcpvisor.KindAuthRequired, supervisor.CauseAuth, true
		f.Hint = "set or renew the credentials in the headers of this server"
		if e.Auth == nil && oauth.OffersAuthorization(resp.Header) {
			f.Hint += ", or let it be authorized by OAuth (HTTP.Auth, in a file \"auth\": {})"
		}
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		f.Kind = mcpvisor.KindUnavailable
		f.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
		f.Hint = "call less often"
		if code == http.StatusServiceUnavailable {
			f.Hint = "try again later"
		}
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		f.Message += " at " + e.Target
		f.Hint = "check the path of the URL"
	case code == http.StatusRequestEntityTooLarge:
		f.Hint = "send smaller arguments, or raise the server's limit"
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		// Some proxy speaks; what became of the request behind it is not known.
		f.Outcome = mcpvisor.OutcomeUnknown
		f.Hint = "look at the proxy or gateway in front of the server"
	default:
		f.Hint = "look at the server's log"
	}
	return f
}

// withoutStatusPrefix is what an error text says besides its status, which many servers
// repeat in front of it, or instead of it.
func withoutStatusPrefix(text string, code int) string {
	rest := text
	for _, prefix := range []string{"HTTP", strconv.Itoa(code), http.StatusText(code)} {
		if n := len(prefix); len(rest) >= n && strings.EqualFold(rest[:n], prefix) {
			rest = strings.TrimLeft(rest[n:], " ")
		}
	}
	switch {
	case strings.Trim(rest, ".:!") == "":
		return ""
	case rest != text && rest[0] == ':':
		return strings.TrimLeft(rest, ": ")
	}
	return text
}

// HTMLReply: a page for people came where an answer was expected.
func (e *Endpoint) HTMLReply(status int) *HTTPError {
	f := InvalidReply(mcpvisor.OutcomeAnswered, "%s is not an MCP endpoint: it answered HTTP %d with a web page", e.Target, status)
	f.Hint = "check the path of the URL, and whether a login page is in the way"
	return f
}

// describeRedirect says where a redirect points, without user and query.
func describeRedirect(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return "an unreadable location"
	}
	return BareURL(u)
}

// BareURL is a URL without its secrets.
func BareURL(u *url.URL) string { return printable(secret.RedactURL(u)) }

// parseRetryAfter reads a Retry-After header: seconds or a date. It is 0 if the
// header is missing or cannot be read.
func parseRetryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if s, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		d = time.Duration(min(max(s, 0), int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// errorText is what a short body of an error status says, for people: the message
// of a JSON error, or the first line of a text; nothing of a web page.
func errorText(contentType string, body []byte) string {
	text := strings.TrimSpace(string(body))
	if IsHTML(contentType, body) || text == "" {
		return ""
	}
	if text[0] == '{' {
		if said := jsonErrorMessage([]byte(text)); said != "" {
			text = said
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// jsonErrorMessage finds the message in the usual shapes of a JSON error.
func jsonErrorMessage(body []byte) string {
	var shape struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
		Message     string          `json:"message"`
		Detail      string          `json:"detail"`
	}
	_ = json.Unmarshal(body, &shape) // what does not fit stays empty
	var inner struct {
		Message string `json:"message"`
	}
	var plain string
	_ = json.Unmarshal(shape.Error, &inner)
	_ = json.Unmarshal(shape.Error, &plain)
	for _, s := range []string{inner.Message, shape.Description, shape.Message, shape.Detail, plain} {
		if s != "" {
			return s
		}
	}
	return ""
}

// maxShownRunes is how many characters of a foreign text are shown.
const maxShownRunes = 200

// printable is a text on one line, cut after shownLength characters.
func printable(s string) string {
	s = display.Line(s)
	n := 0
	for i := range s {
		if n++; n > maxShownRunes {
			return strings.TrimSpace(s[:i]) + "…"
		}
	}
	return s
}

func IsHTML(contentType string, body []byte) bool {
	if t := mediaType(contentType); t == "text/html" || t == "application/xhtml+xml" {
		return true
	}
	return strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 64)])), "<")
}

// mediaType is the type of a Content-Type header without its parameters.
func mediaType(contentType string) string {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		t, _, _ = strings.Cut(contentType, ";")
		t = strings.ToLower(strings.TrimSpace(t))
	}
	return t
}

// IsEventStream reports whether a reply is a stream of events.
func IsEventStream(resp *http.Response) bool {
	return strings.EqualFold(mediaType(resp.Header.Get("Content-Type")), "text/event-stream")
}
