package metadata

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseChallenge(t *testing.T) {
	for header, want := range map[string]Challenge{
		`Bearer resource_metadata="https://x/y", scope="a b"`:            {Received: true, MetadataURL: "https://x/y", Scopes: []string{"a", "b"}},
		`Basic realm="x", Bearer error="insufficient_scope", scope="w"`:  {Received: true, Code: CodeInsufficientScope, Scopes: []string{"w"}},
		`bearer error=invalid_token, error_description="it said \"no\""`: {Received: true, Code: "invalid_token", Description: `it said "no"`},
		`Negotiate`:                {Received: true},
		`Bearer scope="unfinished`: {Received: true},
	} {
		require.Equal(t, want, ParseChallenge(http.Header{"Www-Authenticate": {header}}), header)
	}
	require.Equal(t, Challenge{Received: true, Code: "x"}, ParseChallenge(http.Header{"Www-Authenticate": {`Bearer scope="unfinished`, `Bearer error="x"`}}),
		"a header that cannot be parsed does not hide the next one")
}

// oversizeChallenges are headers that take seconds to minutes to parse without
// a bound.
var oversizeChallenges = map[string]string{
	"commas":          "Bearer " + strings.Repeat(",", 1<<20-10) + "a=",
	"parameters":      "Bearer " + strings.Repeat(`a=b,`, 1<<18),
	"challenges":      strings.Repeat("Bearer, ", 1<<17),
	"commas_at_bound": "Bearer " + strings.Repeat(",", 16<<10-10) + "a=",
}

// Without the bounds, the first ones of these would take hours: the time to parse a header grows
// with the product of its bytes and its parts.
func TestParseChallenge_oversize(t *testing.T) {
	for name, header := range oversizeChallenges {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Www-Authenticate": {header, `Bearer resource_metadata="https://x/y", scope="a"`}}
			require.Equal(t, Challenge{Received: true, MetadataURL: "https://x/y", Scopes: []string{"a"}}, ParseChallenge(h), "the next header is read")
		})
	}
	t.Run("many_values", func(t *testing.T) {
		values := append(slices.Repeat([]string{"Bearer a=b"}, maxChallengeParts), `Bearer scope="a"`)
		require.Equal(t, Challenge{Received: true}, ParseChallenge(http.Header{"Www-Authenticate": values}), "the last one is not read")
		require.Equal(t, []string{"a"}, ParseChallenge(http.Header{"Www-Authenticate": values[1:]}).Scopes, "the last one that fits is read")
	})
}

func TestScopes_bounds(t *testing.T) {
	many := make([]string, 200_000)
	for i := range many {
		many[i] = "s" + strconv.Itoa(i)
	}
	all := UnionScopes(many, many[100_000:], []string{"last"})
	require.Equal(t, many[:maxScopes], all)
	require.Equal(t, many[:maxScopes], ParseScopes(strings.Join(many, " ")))
	require.Empty(t, UnionScopes([]string{strings.Repeat("x", maxScopeBytes)}))
	require.True(t, CoverScopes(many, many))
	require.False(t, CoverScopes(many, []string{"s5", "other"}))
}
