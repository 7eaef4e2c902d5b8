package streamable

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// proofGate is a RoundTripper that records the claims of the proofs that go to the MCP
// server. It demands a nonce of its own for each request if nonces is set.
type proofGate struct {
	base   http.RoundTripper
	path   string // of the MCP server
	nonces func(n int) string

	mu      sync.Mutex // guards the fields below
	valid   map[string]bool
	count   int
	claims  []map[string]any
	demands int
}

// newProofGate makes a gate before a server, and the spec that uses it.
func newProofGate(t *testing.T, a *oauthtest.Server) (*proofGate, mcpvisor.ServerSpec) {
	t.Helper()
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	g := &proofGate{base: own, path: "/mcp", valid: map[string]bool{}}
	spec := authSpec(a, oauth.Config{FetchAuthorizationCode: approveAtOnce})
	spec.HTTP.Client = &http.Client{Transport: g}
	return g, spec
}

// RoundTrip implements http.RoundTripper.
func (g *proofGate) RoundTrip(req *http.Request) (*http.Response, error) {
	proof := req.Header.Get("DPoP")
	if req.URL.Path != g.path || proof == "" {
		return g.base.RoundTrip(req)
	}
	var claims map[string]any
	text, _ := base64.RawURLEncoding.DecodeString(strings.Split(proof, ".")[1])
	_ = json.Unmarshal(text, &claims)
	g.mu.Lock()
	g.claims = append(g.claims, claims)
	nonce, _ := claims["nonce"].(string)
	refused := ""
	if g.nonces != nil && !g.valid[nonce] {
		g.count++
		g.demands++
		refused = g.nonces(g.count)
		g.valid[refused] = true
	}
	delete(g.valid, nonce) // each nonce is good for one request
	g.mu.Unlock()
	if g.nonces == nil || refused == "" {
		return g.base.RoundTrip(req)
	}
	return &http.Response{StatusCode: http.StatusUnauthorized, Request: req, Body: http.NoBody, ContentLength: 0,
		Header: http.Header{"Dpop-Nonce": {refused}, "Www-Authenticate": {`DPoP error="use_dpop_nonce"`}}}, nil
}

// Each request of a session carries a new proof for itself, with the nonce that the server
// demands: calls, the event stream, and the DELETE at the end.
func TestDPoP(t *testing.T) {
	for _, nonce := range []string{"", "a-nonce"} {
		t.Run("nonce "+nonce, func(t *testing.T) {
			s, a := newProtectedServer(t, oauthtest.Rules{DPoP: true, DPoPNonce: nonce, Rotate: true})
			gate, spec := newProofGate(t, a)
			session := openSession(t, spec)
			for range 3 {
				requireServing(t, session)
			}
			a.Revoke(false, false)
			requireServing(t, session)
			require.Equal(t, 1, a.Counts().Authorizations)
			session.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
			transporttest.RequireClosed(t, session.Released(), "session is not released")
			require.Len(t, s.requests("DELETE"), 1)
			ids, methods := map[any]bool{}, map[any]bool{}
			for _, c := range gate.claims {
				require.False(t, ids[c["jti"]], "a proof is sent once")
				ids[c["jti"]], methods[c["htm"]] = true, true
				require.Equal(t, a.URL, c["htu"])
				require.Equal(t, c["htm"] == "POST", c["content_digest"] != nil)
			}
			require.Equal(t, map[any]bool{"POST": true, "GET": true, "DELETE": true}, methods)
			for _, r := range s.requests("tools/call") {
				require.Empty(t, r.header.Get("DPoP"), "the test server behind the gate needs none")
			}
		})
	}
}

// Nonces may be good for one request each: concurrent calls use those of their own
// responses.
func TestDPoP_nonceForEachRequest(t *testing.T) {
	_, a := newProtectedServer(t, oauthtest.Rules{DPoP: true})
	gate, spec := newProofGate(t, a)
	session := openSession(t, spec)
	gate.nonces = func(n int) string { return fmt.Sprint("nonce-", n) }
	var calls sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		calls.Go(func() { _, errs[i] = session.Request(transporttest.Context(t), transporttest.ToolCall) })
	}
	calls.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, 1, a.Counts().CodeExchanges+a.Counts().Refreshes, "a nonce is no reason for another token")
}

// A server that demands a new nonce for each proof, or one that cannot be used, costs a call
// two requests at most and no token. The session continues.
func TestDPoP_nonceAgainAndAgain(t *testing.T) {
	for name, nonces := range map[string]func(int) string{
		"another each time": func(n int) string { return fmt.Sprint("nonce-", n) },
		"the same":          func(int) string { return "nonce" },
		"too long":          func(int) string { return strings.Repeat("n", 2000) },
		"none":              func(int) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			_, a := newProtectedServer(t, oauthtest.Rules{DPoP: true})
			gate, spec := newProofGate(t, a)
			session := openSession(t, spec)
			inner := gate.base
			var on atomic.Bool
			var demands atomic.Int32
			gate.base = roundTripper(func(r *http.Request) (*http.Response, error) {
				if !on.Load() || r.Header.Get("DPoP") == "" {
					return inner.RoundTrip(r)
				}
				h := http.Header{"Www-Authenticate": {`DPoP error="use_dpop_nonce"`}}
				if nonce := nonces(int(demands.Add(1))); nonce != "" {
					h["Dpop-Nonce"] = []string{nonce}
				}
				return &http.Response{StatusCode: http.StatusUnauthorized, Request: r, Header: h, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2}, nil
			})
			on.Store(true)
			e := requireCallFails(t, session)
			require.Equal(t, mcpvisor.KindUnavailable, e.Kind, e.Error())
			require.ErrorContains(t, e, "demands another nonce")
			usable := strings.HasPrefix(name, "another") || name == "the same"
			require.EqualValues(t, map[bool]int{true: 2, false: 1}[usable], demands.Load())
			require.Zero(t, a.Counts().Refreshes)
			on.Store(false)
			requireServing(t, session)
		})
	}
}

// A proof that a server repeats in its error is not shown.
func TestDPoP_redaction(t *testing.T) {
	s, a := newProtectedServer(t, oauthtest.Rules{DPoP: true})
	_, spec := newProofGate(t, a)
	own := spec.HTTP.Client.Transport
	var proof string
	spec.HTTP.Client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		if p := r.Header.Get("DPoP"); p != "" && r.URL.Path == "/mcp" {
			proof = p
		}
		return own.RoundTrip(r)
	})
	session := openSession(t, spec)
	s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		writeError(w, id, -32000, "your proof was "+proof)
	})
	e := requireCallFails(t, session)
	require.NotEmpty(t, proof)
	require.ErrorContains(t, e, "your proof was ***")
	for _, part := range strings.Split(proof, ".") {
		require.NotContains(t, e.Error(), part)
	}
}
