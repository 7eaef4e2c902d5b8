package streamable

import (
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// TestHostRoundTripper_outcome checks that no failure of a RoundTripper of the host's
// counts as NotSent: it may have tried the request before, and the server may
// have carried that one out.
func TestHostRoundTripper_outcome(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	rows := map[string]struct {
		second func() (*http.Response, error)
		gone   bool
	}{
		"second try refused":  {func() (*http.Response, error) { return nil, refused }, true},
		"second try no proxy": {func() (*http.Response, error) { return nil, &net.OpError{Op: "proxyconnect", Err: refused} }, false},
		"second try unknown host": {func() (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Name: "host.example", IsNotFound: true}}
		}, false},
		"second try turned away": {func() (*http.Response, error) {
			return nil, errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error")
		}, false},
		"second try finds no session": {func() (*http.Response, error) {
			return &http.Response{StatusCode: 404, Body: http.NoBody, Header: http.Header{}}, nil
		}, true},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			web := newHTTPServer(t)
			spec := specFor(web.URL)
			own := &http.Transport{}
			t.Cleanup(own.CloseIdleConnections)
			retries := false
			spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if !retries || r.Method != http.MethodPost || r.Header.Get("Mcp-Session-Id") == "" {
					return own.RoundTrip(r)
				}
				first, err := own.RoundTrip(r) // carried out; its answer never arrives
				if err == nil {
					_ = first.Body.Close()
				}
				return row.second()
			})}
			s := openSession(t, spec)
			requireServing(t, s)
			retries = true
			e := requireCallFails(t, s)
			retries = false
			require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome, e.Error())
			require.Equal(t, row.gone, s.Cause() != nil, "the end of the session: %v", s.Cause())
			require.Len(t, web.requests("tools/call"), 2, "the call was sent again")
		})
	}
}
