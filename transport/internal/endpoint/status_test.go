package endpoint

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/oauth"
)

func TestParseRetryAfter(t *testing.T) {
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

// Many servers repeat the status in the body. The error contains it once.
func TestErrorText_notRepeated(t *testing.T) {
	rows := []struct {
		status     int
		kind, body string
		want       string
	}{
		{401, "text/plain", "Unauthorized", "HTTP 401 Unauthorized"},
		{401, "text/plain", "401 Unauthorized\n", "HTTP 401 Unauthorized"},
		{401, "application/json", `{"error":"unauthorized."}`, "HTTP 401 Unauthorized"},
		{500, "text/plain", "HTTP 500 Internal Server Error", "HTTP 500 Internal Server Error"},
		{500, "text/plain", "Error: Internal Server Error", "HTTP 500 Internal Server Error: Error: Internal Server Error"},
		{401, "text/plain", "Unauthorized: token expired", "HTTP 401 Unauthorized: token expired"},
		{400, "application/json", `{"message":"Bad Request: no such tool"}`, "HTTP 400 Bad Request: no such tool"},
		{418, "text/plain", "", "HTTP 418 I'm a teapot"},
		{599, "text/plain", "599", "HTTP 599"},
	}
	e, err := New(testSpec("http://host.example/mcp").WithDefaults())
	require.NoError(t, err)
	for _, row := range rows {
		httpErr := e.StatusError(&http.Response{StatusCode: row.status, Header: http.Header{"Content-Type": {row.kind}}}, []byte(row.body), NoSession)
		require.Equal(t, row.want, httpErr.Message, row.body)
	}
}

// With OAuth the headers of the specification are not what the user should change.
func TestStatusError_authorize(t *testing.T) {
	spec := testSpec("http://host.example/mcp").WithDefaults()
	e, err := New(spec)
	require.NoError(t, err)
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="a"`}}}
		e.Auth = nil
		require.Contains(t, e.StatusError(resp, nil, NoSession).Hint, "headers of this server")
		e.Auth, err = new(oauth.Config).NewAuthorizer(spec.HTTP, nil)
		require.NoError(t, err)
		got := e.StatusError(resp, nil, NoSession)
		require.NotContains(t, got.Hint, "headers")
		require.Contains(t, got.Hint, "authorize")
	}
}

// newGzipServer makes a server that compresses its body if the client offers gzip. It sends
// the second half of the body after more is closed.
func newGzipServer(t *testing.T, more chan struct{}) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out io.Writer = w
		flush := func() error { return nil }
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "GZip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out, flush = z, z.Flush
		}
		_, _ = io.WriteString(out, "first ")
		_ = flush()
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(out, "second")
	}))
	t.Cleanup(web.Close)
	return web
}

// The endpoint decompresses like net/http: piece by piece, and without the headers that
// describe the compressed body.
func TestDo_gzip(t *testing.T) {
	more := make(chan struct{})
	e, err := New(testSpec(newGzipServer(t, more).URL).WithDefaults())
	require.NoError(t, err)
	defer e.Close()
	resp, httpErr := e.Do(context.Background(), OutgoingRequest{Method: http.MethodGet, Header: e.NewHeader(0)})
	require.Nil(t, httpErr)
	defer resp.Body.Close()
	require.True(t, resp.Uncompressed)
	require.EqualValues(t, -1, resp.ContentLength)
	require.Empty(t, resp.Header.Get("Content-Encoding"))
	first := make([]byte, len("first "))
	_, err = io.ReadFull(resp.Body, first)
	require.NoError(t, err)
	require.Equal(t, "first ", string(first), "it arrives before the rest is sent")
	close(more)
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "second", string(rest))
}

// Without the offer of gzip the server sends plain text. What it compresses after an offer of the
// application's own is decompressed, too.
func TestDo_gzipNotOffered(t *testing.T) {
	more := make(chan struct{})
	close(more)
	web := newGzipServer(t, more)
	for name, row := range map[string]struct {
		headers   map[string]string
		transport *http.Transport
		packed    bool
	}{
		"compression disabled":  {nil, &http.Transport{DisableCompression: true}, false},
		"other encoding":        {map[string]string{"Accept-Encoding": "identity"}, &http.Transport{}, false},
		"header of application": {map[string]string{"Accept-Encoding": "gzip"}, &http.Transport{}, true},
		"range":                 {map[string]string{"Range": "bytes=0-3"}, &http.Transport{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := testSpec(web.URL)
			spec.HTTP.Headers, spec.HTTP.Client = row.headers, &http.Client{Transport: row.transport}
			e, err := New(spec.WithDefaults())
			require.NoError(t, err)
			defer e.Close()
			resp, httpErr := e.Do(context.Background(), OutgoingRequest{Method: http.MethodGet, Header: e.NewHeader(0)})
			require.Nil(t, httpErr)
			defer resp.Body.Close()
			require.Equal(t, row.packed, resp.Uncompressed)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "first second", string(body))
		})
	}
}
