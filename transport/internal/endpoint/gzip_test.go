package endpoint

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

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
