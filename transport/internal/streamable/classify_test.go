package streamable

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth"
	"github.com/mcpvisor/mcpvisor/transport"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                   0,
		"0":                  0,
		"7":                  7 * time.Second,
		" 7 ":                7 * time.Second,
		"-7":                 0,
		"soon":               0,
		"999999999999999999": maxRetryAfter,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
		now.AddDate(1, 0, 0).Format(http.TimeFormat):      maxRetryAfter,
	} {
		require.Equal(t, want, parseRetryAfter(value, now), value)
	}
}

func TestErrorText(t *testing.T) {
	rows := []struct{ contentType, body, want string }{
		{"text/plain", "", ""},
		{"text/plain", "\n\n one \r\ntwo", "one"},
		{"text/plain; charset=utf-8", "a\x00b\x1b[1mc\u202ed\te", "ab[1mcd e"},
		{"text/html", "plain words", ""},
		{"", "<!doctype html><p>words", ""},
		{"application/json", `{"error":{"code":1,"message":"rpc says"}}`, "rpc says"},
		{"application/json", `{"error":"code_word","error_description":"oauth says"}`, "oauth says"},
		{"application/json", `{"error":"code_word"}`, "code_word"},
		{"application/json", `{"detail":"python says"}`, "python says"},
		{"application/json", `{"message":"node says"}`, "node says"},
		{"application/json", `{"other":1}`, `{"other":1}`},
		{"application/json", `{"broken`, `{"broken`},
	}
	for _, row := range rows {
		require.Equal(t, row.want, printable(errorText(row.contentType, []byte(row.body))), row.body)
	}
	rapid.Check(t, func(t *rapid.T) {
		got := printable(errorText("text/plain", rapid.SliceOf(rapid.Byte()).Draw(t, "body")))
		if n := len([]rune(got)); n > 201 {
			t.Fatalf("%d characters", n)
		}
		for _, r := range got {
			if r < ' ' || r == 0x7f {
				t.Fatalf("control character in %q", got)
			}
		}
	})
}

func TestHeaderValue(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "",
		"list_directory":   "list_directory",
		"file:///a b":      "file:///a b",
		" outer":           "=?base64?IG91dGVy?=",
		"line\nbreak":      "=?base64?bGluZQpicmVhaw==?=",
		"grüß":             "=?base64?Z3LDvMOf?=",
		"=?base64?YQ==?=":  "=?base64?PT9iYXNlNjQ/WVE9PT89?=",
		"=?base64?no end ": "=?base64?PT9iYXNlNjQ/bm8gZW5kIA==?=",
	} {
		require.Equal(t, want, HeaderValue(text))
	}
}

func TestParamValue(t *testing.T) {
	for raw, want := range map[string]string{`"a"`: "a", `true`: "true", `42`: "42", `-7`: "-7", `1e3`: "1000", `9007199254740991`: "9007199254740991"} {
		got, ok := paramValue([]byte(raw))
		require.True(t, ok, raw)
		require.Equal(t, want, got)
	}
	for _, raw := range []string{``, `null`, `1.5`, `9007199254740993`, `{}`, `[1]`} {
		_, ok := paramValue([]byte(raw))
		require.False(t, ok, raw)
	}
}

// A listing that no longer marks an argument takes its header away.
func TestTable_annotationRemoved(t *testing.T) {
	var p HeaderParams
	call := transport.Request{Target: "t", Params: []byte(`{"name":"t","arguments":{"a":"x"}}`)}
	learnAndSet := func(listing string) http.Header {
		h := make(http.Header)
		p.Learn([]byte(listing), true, 100)
		p.AddTo(h, call)
		return h
	}
	require.Equal(t, http.Header{"Mcp-Param-A": {"x"}}, learnAndSet(`{"tools":[null,{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"a"}}}}]}`))
	require.Len(t, learnAndSet(`{"tools":[{"name":"other"}]}`), 1)
	require.Empty(t, learnAndSet(`{"tools":[{"name":"t","inputSchema":{"properties":{"a":{"x-mcp-header":"no token"}}}}]}`))
}

// TestTable_toolsDropped: what the lists do not name any more is forgotten,
// and no list costs more than what is taken of it.
func TestTable_toolsDropped(t *testing.T) {
	const pages, tools = 4, 50
	var p HeaderParams
	page := func(reading, number int) []byte {
		var b strings.Builder
		for i := range tools {
			fmt.Fprintf(&b, `,{"name":"t%d-%d-%d","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"a"}}}}`, reading, number, i)
		}
		return []byte(`{"tools":[` + b.String()[1:] + `]}`)
	}
	for reading := range 20 {
		for number := range pages {
			p.Learn(page(reading, number), number == 0, pages*tools)
		}
		require.LessOrEqual(t, len(p.tools), 2*pages*tools)
		h := make(http.Header)
		p.AddTo(h, transport.Request{Target: fmt.Sprintf("t%d-0-0", reading), Params: []byte(`{"arguments":{"a":"x"}}`)})
		require.Len(t, h, 1, "the tool of the newest list")
	}
	p.Learn([]byte(`{"tools":[]}`), true, 100)
	p.Learn([]byte(`{"tools":[]}`), true, 100)
	require.Empty(t, p.tools)
	p.Learn(page(0, 0), true, 10)
	p.Learn(page(0, 1), false, 10)
	require.Len(t, p.tools, 10, "more is not taken of a list")
}

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
	e, err := New(specFor("http://host.example/mcp?key=canary").WithDefaults())
	require.NoError(t, err)
	wrap := func(err error) error {
		return &url.Error{Op: "Post", URL: "http://host.example/mcp?key=canary", Err: err}
	}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	rows := []struct {
		name string
		err  error
		sent bool
		want mcpvisor.Outcome
		gone bool
		says string
	}{
		{"refused", refused, false, mcpvisor.OutcomeNotSent, true, "nothing listens at host.example:80"},
		{"refused after a pooled connection failed", refused, true, mcpvisor.OutcomeNotSent, true, "nothing listens"},
		{"proxy refused", &net.OpError{Op: "proxyconnect", Err: refused}, false, mcpvisor.OutcomeNotSent, false, "the proxy"},
		{"reset while sending", &net.OpError{Op: "write", Err: syscall.ECONNRESET}, true, mcpvisor.OutcomeUnknown, false, "broke before the answer"},
		{"no such host", &net.OpError{Op: "dial", Err: &net.DNSError{Name: "host.example", IsNotFound: true}}, false, mcpvisor.OutcomeNotSent, false, `"host.example" cannot be resolved`},
		{"timeout", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, false, mcpvisor.OutcomeNotSent, false, "in time"},
		{"plain HTTP", http.ErrSchemeMismatch, false, mcpvisor.OutcomeNotSent, false, "http://"},
		{"proxy refused, which one", &net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 3128}, Err: refused.Err}},
			false, mcpvisor.OutcomeNotSent, false, "the proxy 10.0.0.7:3128 for host.example:80 cannot be reached"},
		{"certificate expired", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{
			NotAfter: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}}}, false, mcpvisor.OutcomeNotSent, false, "the certificate of host.example:80 has expired: it was valid until 2026-01-02"},
		{"certificate of the future", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{
			NotBefore: time.Now().Add(240 * time.Hour), NotAfter: time.Now().Add(480 * time.Hour)}}}, false, mcpvisor.OutcomeNotSent, false, "is not valid yet"},
		{"EOF", io.ErrUnexpectedEOF, true, mcpvisor.OutcomeUnknown, false, "broke before the answer"},
		{"something else", io.ErrNoProgress, false, mcpvisor.OutcomeNotSent, false, "cannot connect to host.example:80"},
	}
	for _, row := range rows {
		f := e.connectError(wrap(row.err), row.sent)
		require.Equal(t, row.want, f.Outcome, row.name)
		require.Equal(t, row.gone, f.Gone, row.name)
		require.Contains(t, f.Message+f.Hint, row.says, row.name)
		require.NotContains(t, f.Error()+f.Unwrap().Error(), "canary", row.name)
	}
}

// A token stands beside the other headers of a request, and leaves those as
// they are, which others share.
func TestWithToken(t *testing.T) {
	shared := http.Header{"Accept": headerBoth, "Mcp-Session-Id": {"s"}}
	require.Equal(t, http.Header{"Accept": headerBoth, "Mcp-Session-Id": {"s"}, "Authorization": {"Bearer t"}}, withToken(shared, "t"))
	require.Len(t, shared, 2)
}

// While no token can be had, it is said when to come again.
func TestTokenError_retryAfter(t *testing.T) {
	e, err := New(specFor("http://host.example/mcp").WithDefaults())
	require.NoError(t, err)
	f := e.tokenError(t.Context(), &oauth.Unavailable{RetryAfter: 7 * time.Second, Err: io.EOF})
	require.Equal(t, mcpvisor.KindUnavailable, f.Kind)
	require.Equal(t, mcpvisor.OutcomeNotSent, f.Outcome)
	require.Equal(t, 7*time.Second, f.RetryAfter)
	require.False(t, f.Permanent)
}
