package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/internal/serverconn"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// MaxErrorBody is how many bytes of the body of an error status are read.
const MaxErrorBody = 64 << 10

// maxHeader bounds the header of a response, in bytes. The default of net/http is 10 MB.
const maxHeader = 1 << 20

// maxRetryAfter bounds the delay that a server can ask for with Retry-After.
const maxRetryAfter = 24 * time.Hour

// connectError makes the error of a request for which the RoundTripper returned err. sent
// says whether the request had got a connection, so that the server may have seen it.
func (e *Endpoint) connectError(err error, sent bool) *HTTPError {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the text of wrapped contains the URL with its secrets
	}
	if problem, ok := errors.AsType[*serverconn.Problem](err); ok {
		httpErr := e.notSentError(problem.Error(), problem.Hint, problem.Err)
		httpErr.ServerGone = problem.Gone
		return httpErr
	}
	// With TLS 1.3 the server refuses the client's certificate after the first bytes of the request,
	// which it has not read.
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate") {
		return e.notSentError(e.HostPort+" refuses the certificate of this client: "+alert.Err.Error(), "set a certificate that it accepts, and its key (HTTP.TLS.CertFile, HTTP.TLS.KeyFile)", err)
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
		httpErr := e.notSentError("nothing listens at "+e.HostPort, "start the server or correct the URL", err)
		httpErr.ServerGone = true
		return httpErr
	case errors.As(err, &dns):
		return e.notSentError(fmt.Sprintf("the host name %q cannot be resolved", dns.Name), "correct the URL or check the network", err)
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return e.notSentError(e.HostPort+" does not speak TLS", "write http:// in the URL, or use the port that speaks TLS", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return e.certificateError(invalid.Cert, err)
	case errors.As(err, &verify), errors.As(err, &unknown):
		return e.notSentError("the certificate of "+e.HostPort+" is not trusted: "+err.Error(), "fix the certificate, or name the authority that issued it (HTTP.TLS.CAFile)", err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return e.notSentError(e.HostPort+" did not accept the connection in time", "check the network and the URL", err)
	}
	return e.notSentError("cannot connect to "+e.HostPort+": "+err.Error(), "check the URL and the network", err)
}

// certificateError makes the error of a certificate that is not valid yet, or has expired.
func (e *Endpoint) certificateError(cert *x509.Certificate, err error) *HTTPError {
	if now := time.Now(); now.Before(cert.NotBefore) {
		return e.notSentError(fmt.Sprintf("the certificate of %s is not valid yet: it is valid from %s on", e.HostPort, cert.NotBefore.UTC().Format(time.RFC3339)),
			"check the clock of this machine", err)
	}
	return e.notSentError(fmt.Sprintf("the certificate of %s has expired: it was valid until %s", e.HostPort, cert.NotAfter.UTC().Format(time.RFC3339)),
		"renew the certificate of the server", err)
}

// dialError returns the *net.OpError of a failed connection attempt; nil if err is another
// error. After a failed attempt the request was certainly not written: net/http dials
// after it used a pooled connection only if it wrote nothing of a POST to that.
//
// Call it only for a request whose context has not ended. Otherwise err is the cause of
// that context, which may be the failed connection attempt of another request.
func dialError(err error) *net.OpError {
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "dial" || op.Op == "proxyconnect") {
		return op
	}
	return nil
}

// isRefused reports whether the connection was refused, so that nothing listens at the
// address.
func isRefused(err error) bool {
	const wsaeConnRefused = syscall.Errno(10061)
	return errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" && errors.Is(err, wsaeConnRefused)
}

// StatusError makes the error of a response with an error status whose body is not a
// JSON-RPC answer. ref says how the request identified its session.
func (e *Endpoint) StatusError(resp *http.Response, body []byte, ref SessionRef) *HTTPError {
	httpErr := &HTTPError{
		Status:    resp.StatusCode,
		Message:   statusText(resp.StatusCode),
		Kind:      mcpvisor.ErrProtocol,
		Outcome:   mcpvisor.OutcomeAnswered,
		CauseKind: supervisor.CauseHandshake,
	}
	// Redaction comes before shortening, because half a secret would not be recognised.
	text := printable(e.CleanText(errorText(resp.Header.Get("Content-Type"), body)))
	if text = withoutStatusPrefix(text, resp.StatusCode); text != "" {
		httpErr.Message += ": " + text
	}
	if loss := sessionLossOf(resp, body, ref); loss.lost {
		httpErr.SessionLost, httpErr.Outcome, httpErr.Kind = true, loss.outcome, mcpvisor.ErrCrashed
		return e.unknownIfHostRoundTripper(httpErr)
	}
	switch code := resp.StatusCode; {
	case code >= 300 && code < 400:
		httpErr.Message = fmt.Sprintf("HTTP %d redirects to %s", code, e.CleanText(describeRedirect(resp)))
		httpErr.Hint = "if that is the endpoint, put this URL into the configuration"
	case code == http.StatusProxyAuthRequired:
		httpErr.Kind, httpErr.CauseKind, httpErr.Permanent = mcpvisor.ErrAuthRequired, supervisor.CauseAuth, true
		httpErr.Hint = "a proxy requires credentials; put its user and password into the proxy URL (HTTP_PROXY)"
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		httpErr.Kind, httpErr.CauseKind, httpErr.Permanent = mcpvisor.ErrAuthRequired, supervisor.CauseAuth, true
		httpErr.Hint = "set or renew the credentials in the headers of this server"
		_, user := e.Auth.(mcpvisor.UserAuthorizer)
		switch {
		case user:
			httpErr.Hint = "authorize it again with mcpvisor authorize, or with Authorize of the client, as a user who may do this; if that does not help, ask the operator of the server"
		case e.Auth != nil:
			httpErr.Hint = "check HTTP.Auth, and what its credential may do"
		case offersOAuth(resp.Header):
			httpErr.Hint += ", or enable OAuth (HTTP.Auth; \"auth\": {} in a configuration file)"
		}
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		httpErr.Kind = mcpvisor.ErrUnavailable
		httpErr.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
		httpErr.Hint = "call less often"
		if code == http.StatusServiceUnavailable {
			httpErr.Hint = "try again later"
		}
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		httpErr.Message += " at " + e.shownAddress()
		httpErr.Hint = "check the path of the URL"
		if e.postURL.Load() != nil {
			httpErr.Hint = "if a proxy strips a prefix of the path, set the outer address (HTTP.MessagesURL; \"messages_url\" in a configuration file)"
		}
	case code == http.StatusRequestEntityTooLarge:
		httpErr.Hint = "send smaller arguments, or raise the server's limit"
	case IsGatewayStatus(code):
		// A proxy answered. The server behind it may or may not have got the request.
		httpErr.Outcome = mcpvisor.OutcomeUnknown
		httpErr.Hint = "look at the proxy or gateway in front of the server"
	default:
		httpErr.Hint = "look at the server's log"
	}
	return httpErr
}

// withoutStatusPrefix removes the status from the beginning of an error text, where many
// servers repeat it. The result is empty if the text contains nothing else.
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

// HTMLReply makes the error of a response that is a web page instead of a JSON-RPC answer.
func (e *Endpoint) HTMLReply(status int) *HTTPError {
	httpErr := InvalidReply(mcpvisor.OutcomeAnswered, "%s is not an MCP endpoint: it answered HTTP %d with a web page", e.shownAddress(), status)
	httpErr.Hint = "check the path of the URL, and whether the server requires a login"
	return httpErr
}

// describeRedirect returns the address of a redirect, without user and query.
func describeRedirect(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return "an unreadable location"
	}
	return BareURL(u)
}

// BareURL returns a URL without its secrets.
func BareURL(u *url.URL) string { return printable(secret.RedactURL(u)) }

// parseRetryAfter reads a Retry-After header, which is a number of seconds or a
// date. It returns 0 if the header is missing or invalid.
func parseRetryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if s, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		d = time.Duration(min(max(s, 0), int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// errorText returns a one-line message from the body of an error status: the message of a
// JSON error, or the first line of a text. For a web page it returns "".
func errorText(contentType string, body []byte) string {
	text := strings.TrimSpace(string(body))
	if IsHTML(contentType, body) || text == "" {
		return ""
	}
	if text[0] == '{' {
		if message := jsonErrorMessage([]byte(text)); message != "" {
			text = message
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// jsonErrorMessage returns the message in the common shapes of a JSON error; "" if there
// is no message.
func jsonErrorMessage(body []byte) string {
	var shape struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
		Message     string          `json:"message"`
		Detail      string          `json:"detail"`
	}
	_ = json.Unmarshal(body, &shape) // fields of another shape stay empty
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

// maxShownRunes is how many characters of a server's text an error shows.
const maxShownRunes = 200

// printable returns a text on one line, without control characters, and at most
// maxShownRunes characters long.
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
