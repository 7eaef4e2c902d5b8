package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/oauthtest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// An authorization that has failed begins again, with an address at which a person can consent. The address of the failed one is
// used up, as it is after 15 minutes.
func TestAuthorize_again(t *testing.T) {
	c := newClient(t)
	remote := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(remote.Close)
	guard := oauthtest.NewServer(remote.URL)
	t.Cleanup(guard.Close)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "s", StartSupervised: true, HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: &oauth.Config{Store: oauth.NewMemoryStore()}}}))
	require.ErrorIs(t, c.WaitReady(t.Context(), "s"), mcpvisor.ErrAuthRequired)
	s := serve(t, c, web.WithControls())
	authorize := func(redirect string) (int, string) {
		body, err := json.Marshal(api.AuthorizeRequest{Redirect: redirect})
		require.NoError(t, err)
		response, text := s.do(http.MethodPost, "/api/servers/s/authorize", string(body), nil)
		var answer api.AuthorizeAnswer
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		return response.StatusCode, answer.URL
	}
	consent := func(address string) string {
		browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		answer, err := browser.Get(address)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.Header.Get("Location")
	}
	status, first := authorize("")
	require.Equal(t, http.StatusOK, status)
	_, same := authorize("")
	require.Equal(t, first, same, "two readers do not take each other's address")
	at, err := url.Parse(first)
	require.NoError(t, err)
	status, _ = authorize(at.Query().Get("redirect_uri") + "?error=access_denied&state=" + at.Query().Get("state"))
	require.Equal(t, http.StatusServiceUnavailable, status, "the person has refused")
	status, second := authorize("")
	require.Equal(t, http.StatusOK, status)
	status, _ = authorize(consent(second))
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	status, _ = authorize("")
	require.Equal(t, http.StatusBadRequest, status, "it is authorized")
	now, _ := c.ServerStatus("s")
	require.Equal(t, supervisor.StateReady, now.State)
}
