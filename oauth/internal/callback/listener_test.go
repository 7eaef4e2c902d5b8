package callback

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func listen(t *testing.T) *Listener {
	t.Helper()
	s, err := Listen(&url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/callback"}, "0")
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// send makes one request without keeping the connection, and returns the status.
func send(t *testing.T, method, address string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestServer_refuses_other_requests(t *testing.T) {
	s := listen(t)
	require.Equal(t, http.StatusNotFound, send(t, http.MethodPost, s.RedirectURI()+"?state=s"))
	require.Equal(t, http.StatusNotFound, send(t, http.MethodGet, s.RedirectURI()+"/other?state=s"))
}

func TestServer_Await(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		complete error
		status   int
	}{"authorized": {nil, http.StatusOK}, "failed": {failed, http.StatusBadRequest}} {
		t.Run(name, func(t *testing.T) {
			s := listen(t)
			done := make(chan error, 1)
			var redirect string
			go func() {
				done <- s.Await(context.Background(), "s", nil, func(text string) error { redirect = text; return c.complete })
			}()
			require.Equal(t, http.StatusBadRequest, send(t, http.MethodGet, s.RedirectURI()+"?state=other&code=x"), "another state")
			require.Equal(t, c.status, send(t, http.MethodGet, s.RedirectURI()+"?state=s&code=c"))
			require.Equal(t, c.complete, <-done)
			require.Equal(t, s.RedirectURI()+"?state=s&code=c", redirect)
		})
	}
}

func TestServer_Await_browser_fails_to_open(t *testing.T) {
	opened := make(chan error, 1)
	opened <- errors.New("no browser")
	require.ErrorContains(t, listen(t).Await(t.Context(), "s", opened, nil), "no browser")
}

func TestFreePort(t *testing.T) {
	uri, err := FreePort(&url.URL{Scheme: "http", Host: "127.0.0.1", Path: "/callback"})
	require.NoError(t, err)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/callback$`, uri)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
