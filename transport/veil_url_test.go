package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// TestAPasswordAsItStandsInItsURLIsHidden: a URL has more than one spelling, and
// servers repeat the one that they were given.
func TestAPasswordAsItStandsInItsURLIsHidden(t *testing.T) {
	for _, password := range []string{"p%40ss%20word", "p%2fssword", "p%61ssword"} {
		v := veilOf(&mcpvisor.Stdio{Env: map[string]string{"DATABASE": "postgres://me:" + password + "@host/db"}})
		require.NotContains(t, v.text("cannot connect to postgres://me:"+password+"@host/db"), password)
	}
}
