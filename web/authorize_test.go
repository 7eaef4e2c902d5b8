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

// unauthorized is the specification of a server at which a person has to authorize the client.
func unauthorized(t *testing.T) mcpvisor.ServerSpec {
	t.Helper()
	remote := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(remote.Close)
	guard := oauthtest.NewServer(remote.URL)
	t.Cleanup(guard.Close)
	return mcpvisor.ServerSpec{Name: "s", StartSupervised: true, HTTP: &mcpvisor.HTTP{URL: guard.URL, Auth: &oauth.Config{Store: oauth.NewMemoryStore()}}}
}

// authorizeAt begins or completes the authorization at the server s.
func authorizeAt(t *testing.T, s *site, redirect string) (status int, address string) {
	t.Helper()
	body, err := json.Marshal(api.AuthorizeRequest{Redirect: redirect})
	require.NoError(t, err)
	response, text := s.do(http.MethodPost, "/api/servers/s/authorize", string(body), nil)
	var answer api.AuthorizeAnswer
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	return response.StatusCode, answer.URL
}

// consent is the address to which the browser of a person who consents is sent.
func consent(t *testing.T, address string) string {
	t.Helper()
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := browser.Get(address)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.Header.Get("Location")
}

// The authorization at a member of a group restarts that one alone, whatever the strategy of the group; a member that waits for it
// starts afterwards.
func TestAuthorize_member_of_a_group(t *testing.T) {
	for _, strategy := range []supervisor.Strategy{supervisor.OneForOne, supervisor.RestForOne, supervisor.OneForAll} {
		c := newClient(t)
		require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{{Name: "g", Members: []string{"before", "s", "after"}, Strategy: strategy}}))
		member := func(name string) mcpvisor.ServerSpec {
			return mcpvisor.ServerSpec{Name: name, StartSupervised: true, InMemory: mcptest.InMemory(mcptest.Script{})}
		}
		require.NoError(t, c.Register(t.Context(), member("before"), unauthorized(t), member("after")))
		require.ErrorIs(t, c.WaitReady(t.Context(), "s"), mcpvisor.ErrAuthRequired)
		s := serve(t, c, web.WithControls())
		_, address := authorizeAt(t, s, "")
		if strategy != supervisor.OneForOne {
			after, _ := c.ServerStatus("after")
			require.Equal(t, supervisor.StateWaiting, after.State)
		}
		status, _ := authorizeAt(t, s, consent(t, address))
		require.Equal(t, http.StatusOK, status)
		require.NoError(t, c.WaitReady(t.Context()))
		for name, epoch := range map[string]uint64{"before": 1, "s": 3, "after": 1} {
			now, _ := c.ServerStatus(name)
			require.Equal(t, epoch, now.Epoch, "%s of %s", name, strategy)
		}
	}
}

// An authorization that has failed begins again, with an address at which a person can consent. The address of the failed one is
// used up, as it is after 15 minutes.
func TestAuthorize_again(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), unauthorized(t)))
	require.ErrorIs(t, c.WaitReady(t.Context(), "s"), mcpvisor.ErrAuthRequired)
	s := serve(t, c, web.WithControls())
	authorize := func(redirect string) (int, string) { return authorizeAt(t, s, redirect) }
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
	status, _ = authorize(consent(t, second))
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, c.WaitReady(t.Context(), "s"))
	status, _ = authorize("")
	require.Equal(t, http.StatusBadRequest, status, "it is authorized")
	now, _ := c.ServerStatus("s")
	require.Equal(t, supervisor.StateReady, now.State)
}
