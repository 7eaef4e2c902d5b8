package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
)

func TestSameOrigin(t *testing.T) {
	parse := func(s string) *url.URL {
		u, err := url.Parse(s)
		require.NoError(t, err)
		return u
	}
	require.True(t, SameOrigin(parse("http://Host/a"), parse("http://host:80/b")))
	require.True(t, SameOrigin(parse("https://host/a"), parse("https://host:443/b")))
	require.False(t, SameOrigin(parse("https://host/a"), parse("http://host/a")))
	require.False(t, SameOrigin(parse("https://host:443/a"), parse("http://host:443/a")), "the same port without TLS")
	require.False(t, SameOrigin(parse("http://host/a"), parse("http://host:81/a")))
	require.False(t, SameOrigin(parse("http://host/a"), parse("http://host.evil/a")))
}

func TestConnectError(t *testing.T) {
	e, err := New(testSpec("http://host.example/mcp?key=canary").WithDefaults())
	require.NoError(t, err)
	wrap := func(err error) error {
		return &url.Error{Op: "Post", URL: "http://host.example/mcp?key=canary", Err: err}
	}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	rows := []struct {
		name     string
		err      error
		sent     bool
		want     mcpvisor.Outcome
		gone     bool
		wantText string
	}{
		{"refused", refused, false, mcpvisor.OutcomeNotSent, true, "nothing listens at host.example:80"},
		{"refused after a pooled connection failed", refused, true, mcpvisor.OutcomeNotSent, true, "nothing listens"},
		{"proxy refused", &net.OpError{Op: "proxyconnect", Err: refused}, false, mcpvisor.OutcomeNotSent, false, "the proxy"},
		{"reset while sending", &net.OpError{Op: "write", Err: syscall.ECONNRESET}, true, mcpvisor.OutcomeUnknown, false, "broke before the answer"},
		{"no such host", &net.OpError{Op: "dial", Err: &net.DNSError{Name: "host.example", IsNotFound: true}}, false, mcpvisor.OutcomeNotSent, false, `"host.example" cannot be resolved`},
		{"timeout", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, false, mcpvisor.OutcomeNotSent, false, "in time"},
		{"no client certificate", &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, true, mcpvisor.OutcomeNotSent, false, "refuses the certificate of this client: tls: certificate required"},
		{"text of the server", errors.New(`malformed HTTP response "remote error: tls: certificate required"`), true, mcpvisor.OutcomeUnknown, false, "broke before the answer"},
		{"plain HTTP", http.ErrSchemeMismatch, false, mcpvisor.OutcomeNotSent, false, "http://"},
		{"proxy refused, names the proxy", &net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 3128}, Err: refused.Err}},
			false, mcpvisor.OutcomeNotSent, false, "the proxy 10.0.0.7:3128 for host.example:80 cannot be reached"},
		{"certificate expired", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{
			NotAfter: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}}}, false, mcpvisor.OutcomeNotSent, false, "the certificate of host.example:80 has expired: it was valid until 2026-01-02"},
		{"certificate not valid yet", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{
			NotBefore: time.Now().Add(240 * time.Hour), NotAfter: time.Now().Add(480 * time.Hour)}}}, false, mcpvisor.OutcomeNotSent, false, "is not valid yet"},
		{"EOF", io.ErrUnexpectedEOF, true, mcpvisor.OutcomeUnknown, false, "broke before the answer"},
		{"something else", io.ErrNoProgress, false, mcpvisor.OutcomeNotSent, false, "cannot connect to host.example:80"},
	}
	for _, row := range rows {
		httpErr := e.connectError(wrap(row.err), row.sent)
		require.Equal(t, row.want, httpErr.Outcome, row.name)
		require.Equal(t, row.gone, httpErr.ServerGone, row.name)
		require.Contains(t, httpErr.Message+httpErr.Hint, row.wantText, row.name)
		require.NotContains(t, httpErr.Error()+httpErr.Unwrap().Error(), "canary", row.name)
	}
}

// Requests of one session share a connection, which ends with the session.
func TestDo_reuses_connection(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }))
	t.Cleanup(web.Close)
	e, err := New(testSpec(web.URL).WithDefaults())
	require.NoError(t, err)
	var clients []string
	for range 2 {
		var trace ConnTrace
		resp, httpErr := e.Do(trace.Context(t.Context()), OutgoingRequest{Method: http.MethodPost, Body: []byte("{}"), Header: e.NewHeader(0), Trace: &trace})
		require.Nil(t, httpErr)
		client, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		clients = append(clients, string(client))
	}
	require.Equal(t, clients[0], clients[1])
	e.Close()
	require.Empty(t, e.conns.open)
}

// testCredential adds a header.
type testCredential struct{ token string }

func (c testCredential) SetHeaders(header http.Header, method string, target *url.URL, body []byte) error {
	header["Authorization"] = []string{fmt.Sprintf("Signed %s %s %s %s", c.token, method, target, body)}
	return nil
}

// A credential is added to a copy of the headers, because requests share the headers. It gets
// the address that the server sees.
func TestWithCredential(t *testing.T) {
	spec := testSpec("http://host.example/mcp")
	spec.HTTP.Headers = map[string]string{"Host": "seen.example"}
	e, err := New(spec.WithDefaults())
	require.NoError(t, err)
	shared := http.Header{"Accept": []string{"application/json, text/event-stream"}, "Mcp-Session-Id": {"s"}}
	got, err := e.withCredential(shared, &OutgoingRequest{Method: "POST", Body: []byte("{}"), credential: testCredential{"t"}}, e.URL)
	require.NoError(t, err)
	require.Equal(t, http.Header{"Accept": []string{"application/json, text/event-stream"}, "Mcp-Session-Id": {"s"}, "Authorization": {"Signed t POST http://seen.example/mcp {}"}}, got)
	require.Len(t, shared, 2)
}

// While the authorization server is unavailable, the error says when to try again.
func TestCredentialError_retryAfter(t *testing.T) {
	e, err := New(testSpec("http://host.example/mcp").WithDefaults())
	require.NoError(t, err)
	httpErr := e.credentialError(t.Context(), &mcpvisor.AuthUnavailable{RetryAfter: 7 * time.Second, Err: io.EOF})
	require.Equal(t, mcpvisor.ErrUnavailable, httpErr.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, httpErr.Outcome)
	require.Equal(t, 7*time.Second, httpErr.RetryAfter)
	require.False(t, httpErr.Permanent)
}

// The copy of an application's transport has no bound on the wait for headers, has a bound
// on their size, and tracks the connections of its own DialTLSContext.
func TestTuneTransport(t *testing.T) {
	spec := testSpec("https://host.example/mcp")
	spec.HTTP.Client = &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: time.Second,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			mine, _ := net.Pipe()
			return mine, nil
		}}}
	e, err := New(spec.WithDefaults())
	require.NoError(t, err)
	tuned := e.RoundTripper.(*http.Transport)
	require.Zero(t, tuned.ResponseHeaderTimeout, "a bound would end calls of slow tools")
	require.EqualValues(t, maxHeader, tuned.MaxResponseHeaderBytes)
	require.Positive(t, tuned.HTTP2.SendPingTimeout, "without pings a dead HTTP/2 connection would block its calls")
	_, err = tuned.DialTLSContext(t.Context(), "tcp", "host.example:443")
	require.NoError(t, err)
	require.Len(t, e.conns.open, 1)
	e.Close()
}

// testSpec returns the spec of a server at this URL.
func testSpec(url string) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "web", HTTP: &mcpvisor.HTTP{URL: url}}
}

// describe returns all texts of an error.
func describe(httpErr *HTTPError) string {
	return httpErr.Message + " " + httpErr.Hint + " " + httpErr.Err.Error()
}

// The end of a session names the address in one sentence.
func TestHTTPError_EndCause(t *testing.T) {
	gone := &HTTPError{Message: "nothing listens at host.example:80", ServerGone: true}
	require.Equal(t, "the server is gone: nothing listens at host.example:80 (its URL is http://host.example/mcp)",
		gone.EndCause("http://host.example/mcp").Message)
	lost := &HTTPError{Message: "HTTP 404 Not Found", SessionLost: true}
	require.Equal(t, "the server forgot the session: HTTP 404 Not Found (its URL is http://host.example/mcp)",
		lost.EndCause("http://host.example/mcp").Message)
}

func TestSecrets_inJSON(t *testing.T) {
	spec := testSpec("http://host.example/")
	spec.HTTP.Headers = map[string]string{"X-Pin": "12345678", "X-Odd": `":[1,2]`, "Authorization": "Basic " + basicToken("login-name", "pass-word")}
	e, err := New(spec.WithDefaults())
	require.NoError(t, err)
	for raw, want := range map[string]string{
		`{"pin":"12345678"}`:             `{"pin":"***"}`,
		`{"pin":[null,"a12345678b"]}`:    `{"pin":[null,"a***b"]}`,
		`{"pin":123456789}`:              `{"pin":"***"}`,
		`{"pin":[1,2]}`:                  `"***"`,
		`"login-name:pass-word"`:         `"***"`,
		`"pass-word, \u0070ass-word"`:    `"***, ***"`,
		`{"\u0031\u0032345678": "x" }`:   `{"***": "x" }`,
		`{"harmless": ["\u0031", 1.0 ]}`: `{"harmless": ["\u0031", 1.0 ]}`,
	} {
		require.Equal(t, want, string(e.CleanJSON(json.RawMessage(raw))), raw)
	}
	for _, sent := range []bool{true, false} {
		httpErr := e.connectError(errors.New("proxy want: bad pin 12345678"), sent)
		require.NotContains(t, describe(httpErr), "12345678")
		require.Contains(t, describe(httpErr), "bad pin ***")
	}
	harmless := errors.New("harmless")
	require.Same(t, harmless, e.CleanError(harmless))
	require.NoError(t, e.CleanError(nil))
}

// A secret is redacted in every encoding in which it is sent or may be repeated.
func TestSecrets_allForms(t *testing.T) {
	spec := testSpec("http://us%20er%2F1:pass%20w%2Ford@host.example/mcp?key=qu%20e%2Fry&b=other+1")
	spec.HTTP.Headers = map[string]string{"X-Key": "header value", "Authorization": "Basic " + basicToken("login 1", "pass 2")}
	e, err := New(spec.WithDefaults())
	require.NoError(t, err)
	for _, secret := range []string{
		"us er/1", "us%20er%2F1", "pass w/ord", "pass%20w%2Ford", "pass+w%2Ford", "us%20er%2F1:pass%20w%2Ford", basicToken("us er/1", "pass w/ord"),
		"key=qu%20e%2Fry&b=other+1", "qu e/ry", "qu+e%2Fry", "other 1", "other+1",
		"header value", "Basic " + basicToken("login 1", "pass 2"), basicToken("login 1", "pass 2"), "login 1:pass 2", "pass 2",
	} {
		require.NotContains(t, e.CleanText("refused: "+secret+"!"), secret)
		require.NotContains(t, string(e.CleanJSON([]byte(`{"message":"refused: `+secret+`!"}`))), secret)
	}
}

func TestRedact_secretsOfSpec(t *testing.T) {
	const secret = "correct horse"
	e, err := New(mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: "http://host/mcp"}, Secrets: []string{secret}})
	require.NoError(t, err)
	require.Equal(t, "no ***", e.Redact("no "+secret))
}

// The rest of a body that stalls is given up after BodyTimeout.
func TestDrain_stalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, feed := io.Pipe()
		go func() { _, _ = feed.Write([]byte("no")) }()
		began := time.Now()
		drain(body)
		require.Equal(t, BodyTimeout, time.Since(began))
		_, err := feed.Write([]byte("more"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
