package oauth

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// oversizeChallenges are headers that take seconds to minutes to parse without
// a bound.
var oversizeChallenges = map[string]string{
	"commas":          "Bearer " + strings.Repeat(",", 1<<20-10) + "a=",
	"parameters":      "Bearer " + strings.Repeat(`a=b,`, 1<<18),
	"challenges":      strings.Repeat("Bearer, ", 1<<17),
	"commas at bound": "Bearer " + strings.Repeat(",", 16<<10-10) + "a=",
}

func TestChallenge_oversize(t *testing.T) {
	for name, header := range oversizeChallenges {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Www-Authenticate": {header, `Bearer resource_metadata="https://x/y", scope="a"`}}
			began := time.Now()
			c := challengeIn(h)
			require.Less(t, time.Since(began), time.Second/2)
			require.Equal(t, challenge{heard: true, metadata: "https://x/y", scopes: []string{"a"}}, c, "the header after it is read")
			require.True(t, OffersAuthorization(h))
			require.False(t, IsInsufficientScope(http.StatusForbidden, h))
		})
	}
	t.Run("many_values", func(t *testing.T) {
		values := slices.Repeat([]string{"Bearer a=b"}, 1<<17)
		began := time.Now()
		require.Equal(t, challenge{heard: true}, challengeIn(http.Header{"Www-Authenticate": values}))
		require.Less(t, time.Since(began), time.Second/2)
	})
}

func manyScopes(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = "s" + strconv.Itoa(i)
	}
	return all
}

func TestScopes_bounded(t *testing.T) {
	many := manyScopes(200_000)
	began := time.Now()
	all := union(many, many[100_000:], []string{"last"})
	require.Equal(t, many[:maxScopes], all)
	require.Equal(t, many[:maxScopes], scopesIn(strings.Join(many, " ")))
	require.Empty(t, union([]string{strings.Repeat("x", maxScopeBytes)}))
	require.True(t, covers(many, many))
	require.False(t, covers(many, []string{"s5", "other"}))
	require.Less(t, time.Since(began), 5*time.Second)
}

// A server that lists scopes without end costs neither the time of a caller nor
// the lock that every token needs.
func TestScopes_bounded_in_authorization_URL(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, mcpvisor.OAuth{})
	h := http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="` + strings.Join(manyScopes(1500), " ") + `"`}}
	err := a.Renew(t.Context(), "", false, http.StatusUnauthorized, h)
	var required *mcpvisor.AuthRequired
	require.ErrorAs(t, err, &required)
	require.LessOrEqual(t, len(required.Scopes), maxScopes)
	require.Less(t, len(required.URL), 64<<10)
}

func TestRefusal_oversize_text(t *testing.T) {
	a := &Authorizer{}
	secret := "a-long-secret-of-ours"
	a.secrets.keep(secret)
	r := a.refused(strings.Repeat("c", 1<<20), strings.Repeat("d", maxShownBytes-5)+secret)
	require.Less(t, len(r.Error()), 3*maxShownBytes)
	require.NotContains(t, r.Error(), secret[:5], "half a secret is one, too")
	require.Equal(t, "access_denied (no way)", a.refused("access_denied", "no way").Error())
	a.secrets.keep(strings.Repeat("x", 600))
	require.Equal(t, "e (***)", a.refused("e", strings.Repeat("x", 600)).Error())
}
