package guard

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errPlain = errors.New("plain")

func TestCall(t *testing.T) {
	require.NoError(t, Call("thing", func() error { return nil }))
	require.Equal(t, errPlain, Call("thing", func() error { return errPlain }))
	require.EqualError(t, Call("thing", func() error { panic("boom") }), "the host's thing panicked: boom")
	require.ErrorContains(t, Call("thing", func() error { return (*url.Error)(nil) }), "an error of type *url.Error that panicked")
	n, err := Value("thing", func() (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n)
	_, err = Value("thing", func() (int, error) { panic(errPlain) })
	require.EqualError(t, err, "the host's thing panicked: plain")
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := func(context.Context) error { runtime.Goexit(); return nil }
		require.EqualError(t, Do(t.Context(), "thing", ended), "the host's thing ended its goroutine")
		require.EqualError(t, Do(t.Context(), "thing", func(context.Context) error { panic("boom") }), "the host's thing panicked: boom")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late, free := make(chan int, 1), make(chan struct{})
		_, err := Wait(ctx, "thing", func(n int) { late <- n; panic("boom") }, func(context.Context) (int, error) { <-free; return 7, nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(free)
		require.Equal(t, 7, <-late)
	})
}

// panickingKey is a private key outside of this process.
type panickingKey struct{ crypto.Signer }

func (panickingKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) { panic("boom") }

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	text, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}
}

type panickingCache struct{}

func (panickingCache) Get(string) (*tls.ClientSessionState, bool) { panic("boom") }
func (panickingCache) Put(string, *tls.ClientSessionState)        { panic("boom") }

type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

// Every function of a transport is guarded. Each of them panics here in a goroutine
// of net/http, or in that of the caller.
func TestTransport(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	web.Config.ErrorLog = quiet
	web.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer proxy.Close()
	proxyURL, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	cert := certificate(t)

	for name, c := range map[string]struct {
		set   func(t *http.Transport)
		works bool // the request succeeds in spite of the panic
	}{
		"nothing": {func(*http.Transport) {}, true},
		"Proxy":   {func(t *http.Transport) { t.Proxy = func(*http.Request) (*url.URL, error) { panic("boom") } }, false},
		"DialContext": {func(t *http.Transport) {
			t.DialContext = func(context.Context, string, string) (net.Conn, error) { panic("boom") }
		}, false},
		"Dial": {func(t *http.Transport) { t.Dial = func(string, string) (net.Conn, error) { panic("boom") } }, false}, //nolint:staticcheck // hosts still set it
		"DialTLSContext": {func(t *http.Transport) {
			t.DialTLSContext = func(context.Context, string, string) (net.Conn, error) { panic("boom") }
		}, false},
		"DialTLS": {func(t *http.Transport) { t.DialTLS = func(string, string) (net.Conn, error) { panic("boom") } }, false}, //nolint:staticcheck // hosts still set it
		"GetProxyConnectHeader": {func(t *http.Transport) {
			t.Proxy = http.ProxyURL(proxyURL)
			t.GetProxyConnectHeader = func(context.Context, *url.URL, string) (http.Header, error) { panic("boom") }
		}, false},
		"OnProxyConnectResponse": {func(t *http.Transport) {
			t.Proxy = http.ProxyURL(proxyURL)
			t.OnProxyConnectResponse = func(context.Context, *url.URL, *http.Request, *http.Response) error { panic("boom") }
		}, false},
		"TLSNextProto": {func(t *http.Transport) {
			t.TLSClientConfig.NextProtos = []string{"h2"}
			t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{"h2": func(_ string, c *tls.Conn) http.RoundTripper {
				_ = c.Close()
				panic("boom")
			}}
		}, false},
		"VerifyPeerCertificate": {func(t *http.Transport) {
			t.TLSClientConfig.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error { panic("boom") }
		}, false},
		"VerifyConnection": {func(t *http.Transport) {
			t.TLSClientConfig.VerifyConnection = func(tls.ConnectionState) error { panic("boom") }
		}, false},
		"GetClientCertificate": {func(t *http.Transport) {
			t.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { panic("boom") }
		}, false},
		"PrivateKey": {func(t *http.Transport) {
			own := cert
			own.PrivateKey = panickingKey{cert.PrivateKey.(crypto.Signer)}
			t.TLSClientConfig.Certificates = []tls.Certificate{own}
		}, false},
		"Certificates":       {func(t *http.Transport) { t.TLSClientConfig.Certificates = []tls.Certificate{cert} }, true},
		"Time":               {func(t *http.Transport) { t.TLSClientConfig.Time = func() time.Time { panic("boom") } }, true},
		"ClientSessionCache": {func(t *http.Transport) { t.TLSClientConfig.ClientSessionCache = panickingCache{} }, true},
		"KeyLogWriter": {func(t *http.Transport) {
			t.TLSClientConfig.KeyLogWriter = writeFunc(func([]byte) (int, error) { panic("boom") })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			own := &http.Transport{TLSClientConfig: web.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
			own.TLSClientConfig.NextProtos = nil
			c.set(own)
			Transport(own)
			defer own.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil)
			require.NoError(t, err)
			resp, err := own.RoundTrip(req)
			if err == nil {
				defer resp.Body.Close()
			}
			if c.works {
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, "hello", string(body))
				return
			}
			require.ErrorContains(t, err, "panicked: boom")
		})
	}
}

func TestIsStandard(t *testing.T) {
	own := &http.Transport{Proxy: http.ProxyFromEnvironment}
	Transport(own)
	require.True(t, IsFuncNamed(own.Proxy, "net/http.ProxyFromEnvironment"))
	own = &http.Transport{Proxy: http.ProxyURL(&url.URL{})}
	require.True(t, IsFuncNamed(own.Proxy, "net/http.ProxyURL.", ".ProxyURL.func"))
	require.False(t, IsFuncNamed(func() {}, "net/http."))
	require.False(t, IsFuncNamed(nil, "net/http."))
	require.False(t, IsFuncNamed((func())(nil), "net/http."))
}

type panickingJar struct{}

func (panickingJar) Cookies(*url.URL) []*http.Cookie         { panic("boom") }
func (panickingJar) SetCookies(u *url.URL, _ []*http.Cookie) { panic("boom") }

func TestJar(t *testing.T) {
	require.True(t, NewJar(nil).IsNil())
	u := &url.URL{Scheme: "http", Host: "host.example"}
	_, err := NewJar(panickingJar{}).Cookies(t.Context(), u)
	require.ErrorContains(t, err, "cookie jar panicked")
	require.ErrorContains(t, NewJar(panickingJar{}).SetCookies(t.Context(), u, nil), "cookie jar panicked")
	standard, err := cookiejar.New(nil)
	require.NoError(t, err)
	j := NewJar(standard)
	require.NoError(t, j.SetCookies(t.Context(), u, []*http.Cookie{{Name: "a", Value: "b"}}))
	cookies, err := j.Cookies(t.Context(), u)
	require.NoError(t, err)
	require.Len(t, cookies, 1)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The guarded response equals that of the host, and every body is closed.
func TestRoundTripper_body(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 10_000)
	var open atomic.Int32
	guarded := NewRoundTripper(roundTripper(func(*http.Request) (*http.Response, error) {
		open.Add(1)
		return &http.Response{StatusCode: http.StatusTeapot, Body: &counted{strings.NewReader(text), &open}}, nil
	}), new(Abandoned))
	for range 20 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host.example", nil)
		require.NoError(t, err)
		resp, err := guarded.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusTeapot, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, text, string(body))
		require.NoError(t, resp.Body.Close())
		require.NoError(t, resp.Body.Close())
		_, err = resp.Body.Read(make([]byte, 1))
		require.Error(t, err)
		require.Zero(t, open.Load())
	}
	require.Zero(t, guarded.Abandoned())
	require.Zero(t, guarded.Settle(time.Second))
}

type counted struct {
	io.Reader
	open *atomic.Int32
}

func (c *counted) Close() error { c.open.Add(-1); return nil }

// Close ends a Read that blocks, as with bodies of net/http.
func TestRoundTripper_close_during_read(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	guarded := NewRoundTripper(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: r}, nil
	}), new(Abandoned))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host.example", nil)
	require.NoError(t, err)
	resp, err := guarded.RoundTrip(req)
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() { _, err := resp.Body.Read(make([]byte, 1)); failed <- err }()
	_, err = w.Write(nil) // returns when the Read has begun
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Error(t, <-failed)
	require.Zero(t, guarded.Settle(time.Second))
	require.Zero(t, guarded.Abandoned())
}

// A host may return the same response each time. It is not changed.
func TestRoundTripper_shared_response(t *testing.T) {
	shared := &http.Response{Body: io.NopCloser(strings.NewReader(""))}
	guarded := NewRoundTripper(roundTripper(func(*http.Request) (*http.Response, error) { return shared, nil }), new(Abandoned))
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host.example", nil)
		require.NoError(t, err)
		resp, err := guarded.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.IsType(t, io.NopCloser(strings.NewReader("")), shared.Body)
}

// pieces is a body that returns at most size bytes from one Read, as a connection
// does. It keeps the buffers that it was given.
type pieces struct {
	size, left int
	buffers    map[*byte]int // their lengths, by their first byte
}

func (b *pieces) Read(p []byte) (int, error) {
	b.buffers[&p[0]] = len(p)
	if b.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), b.size, b.left)
	b.left -= n
	return n, nil
}

func (b *pieces) Close() error { return nil }

// A body is read into one small buffer, and into a large one after a Read has filled it.
func TestRoundTripper_buffers_of_body(t *testing.T) {
	for name, c := range map[string]struct{ size, buffers int }{
		"small_pieces": {100, 1}, "pieces_of_the_first_buffer": {firstBufferSize, 2}, "large_pieces": {bodyBufferSize, 2},
	} {
		t.Run(name, func(t *testing.T) {
			body := &pieces{size: c.size, left: 64 * c.size, buffers: map[*byte]int{}}
			guarded := NewRoundTripper(roundTripper(func(*http.Request) (*http.Response, error) { return &http.Response{Body: body}, nil }), new(Abandoned))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://host.example", nil)
			require.NoError(t, err)
			resp, err := guarded.RoundTrip(req)
			require.NoError(t, err)
			n, err := io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.EqualValues(t, 64*c.size, n)
			require.NoError(t, resp.Body.Close())
			require.Zero(t, guarded.Settle(time.Second))
			require.Len(t, body.buffers, c.buffers)
		})
	}
}
