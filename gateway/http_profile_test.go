package gateway

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A stream, and a subscriptions/listen, end when the token of their client expires: who has no token any
// more hears nothing.
func TestHandler_streams_end_with_the_token(t *testing.T) {
	_, url := serveHTTP(t, newClient(t, fixture("a", mcptest.Script{})), WithTokenVerifier(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(time.Second)}, nil
	}, nil))
	p := newPeer(t, url)
	p.header.Set("Authorization", "Bearer x")
	p.initialize("2025-11-25")
	stream := p.listen()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ok := true; ok; {
			_, _, ok = stream.next()
		}
	}()
	other := newPeer(t, url)
	other.header.Set("Authorization", "Bearer x")
	response := other.do(t.Context(), http.MethodPost, modernRequest("subscriptions/listen", `"notifications":{"toolsListChanged":true}`), versionHeader, modernVersion, methodHeader, "subscriptions/listen")
	require.Equal(t, http.StatusOK, response.StatusCode)
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		_, _ = io.Copy(io.Discard, response.Body)
	}()
	receive(t, ended)
	receive(t, listened)
}

// A principal that could be mistaken for another one with a profile is refused.
func TestHandler_principal_with_NUL(t *testing.T) {
	_, url := serveHTTP(t, newClient(t), WithTokenVerifier(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "a\x00p"}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true}))
	p := newPeer(t, url)
	p.header.Set("Authorization", "Bearer x")
	status, _ := p.post(initializeRequest("2025-11-25"))
	require.Equal(t, http.StatusInternalServerError, status)
	require.NotEqual(t, owner.Name("a", "p"), owner.Name("a", ""))
}
