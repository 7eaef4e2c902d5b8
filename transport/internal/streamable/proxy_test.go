package streamable

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// proxyFor returns a client whose proxy answers every request with a status, and the
// address of the proxy.
func proxyFor(t *testing.T, code int) (client *http.Client, address string) {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	t.Cleanup(proxy.Close)
	u, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	address = u.Host
	u.User = url.UserPassword("carol", "canary-9f3b")
	own := &http.Transport{Proxy: http.ProxyURL(u)}
	t.Cleanup(own.CloseIdleConnections)
	return &http.Client{Transport: own}, address
}

// The error of a rejected CONNECT names the proxy.
func TestProxy_refusesConnect(t *testing.T) {
	rows := []struct {
		code int
		kind supervisor.CauseKind
		want string
		hint string
	}{
		{407, supervisor.CauseAuth, "HTTP 407 Proxy Authentication Required", "user and password"},
		{403, supervisor.CauseSpawn, "HTTP 403 Forbidden", "allow"},
		{502, supervisor.CauseSpawn, "HTTP 502 Bad Gateway", "reach"},
		{504, supervisor.CauseSpawn, "HTTP 504 Gateway Timeout", "reach"},
	}
	for _, row := range rows {
		t.Run(row.want, func(t *testing.T) {
			checkLeaks(t)
			client, address := proxyFor(t, row.code)
			spec := specFor("https://mcp.invalid/mcp")
			spec.HTTP.Client = client
			cause := requireOpenFails(t, spec)
			require.Contains(t, cause.Message, "the proxy "+address+" refused to connect to mcp.invalid:443: "+row.want)
			require.Contains(t, cause.Message, row.hint)
			require.Equal(t, row.kind, cause.Kind)
			require.Equal(t, row.code == 407, cause.Permanent)
			require.NotContains(t, cause.Message+cause.Err.Error(), "canary")
		})
	}
}

// An OnProxyConnectResponse hook of the application is called, and its error counts.
func TestProxy_hostHook(t *testing.T) {
	checkLeaks(t)
	client, _ := proxyFor(t, 502)
	spec := specFor("https://mcp.invalid/mcp")
	spec.HTTP.Client = client
	hookMethod := ""
	client.Transport.(*http.Transport).OnProxyConnectResponse = func(_ context.Context, _ *url.URL, req *http.Request, _ *http.Response) error {
		hookMethod = req.Method
		return errors.New("the application rejects it")
	}
	cause := requireOpenFails(t, spec)
	require.Equal(t, http.MethodConnect, hookMethod)
	require.Contains(t, cause.Message, "the application rejects it")
}

// A 407 to a request over plain http is an error about the credentials of the proxy, and not
// about those of the server.
func TestProxy_answersForServer(t *testing.T) {
	checkLeaks(t)
	client, _ := proxyFor(t, 407)
	spec := specFor("http://mcp.invalid/mcp")
	spec.HTTP.Client = client
	cause := requireOpenFails(t, spec)
	require.Contains(t, cause.Message, "proxy")
	require.NotContains(t, cause.Message, "headers of this server")
	require.NotContains(t, cause.Message, "canary")
}
