//go:build linux

package integration

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// badGateway is an http.RoundTripper that answers 502 to the first requests of one
// JSON-RPC method.
type badGateway struct {
	http.Transport
	method string
	left   atomic.Int32
}

func (g *badGateway) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if bytes.Contains(body, []byte(`"`+g.method+`"`)) && g.left.Add(-1) >= 0 {
		return &http.Response{StatusCode: http.StatusBadGateway, Status: "502 Bad Gateway", Proto: "HTTP/1.1", ProtoMajor: 1,
			ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	return g.Transport.RoundTrip(r)
}

// A list that a gateway rejected is not an empty list. The start fails, and the server
// becomes ready only with its whole catalog.
func TestStart_list_refused_by_gateway(t *testing.T) {
	for _, method := range []string{"tools/list", "prompts/list"} {
		t.Run(method, func(t *testing.T) {
			w := newFixture(t)
			web := mcptest.NewHTTP(mcptest.Script{}, mcptest.WithStateless(), mcptest.WithJSONResponses())
			t.Cleanup(web.Close)
			c, events := w.client()
			proxy := &badGateway{method: method}
			proxy.left.Store(2)
			t.Cleanup(proxy.CloseIdleConnections)
			require.NoError(t, c.Register(w.within(), mcpvisor.ServerSpec{Name: "web", StartSupervised: true,
				Policy: supervisor.Retry(5, 5*time.Millisecond), HTTP: &mcpvisor.HTTP{URL: web.URL, Client: &http.Client{Transport: proxy}}}))
			require.NoError(t, c.WaitReady(w.within(), "web"))
			require.Len(t, c.Tools(), webTools)
			require.Len(t, c.Prompts(), len(mcptest.DefaultPrompts()))
			failed, err := events.wait(w.within(), eventIs("web", mcpvisor.EventStartFailed, 0))
			require.NoError(t, err)
			require.Contains(t, failed.Cause.Error(), method)
			require.Contains(t, failed.Cause.Error(), "502")
		})
	}
}
