package oauth

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusal(t *testing.T) {
	oversize := "Bearer " + strings.Repeat(`a=b,`, 1<<18)
	h := http.Header{"Www-Authenticate": {oversize, `Bearer resource_metadata="https://x/y", scope="a"`}}
	require.False(t, isInsufficientScope(http.StatusForbidden, h))
	h.Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="w"`)
	require.True(t, isInsufficientScope(http.StatusForbidden, h))
	require.False(t, isInsufficientScope(http.StatusUnauthorized, h))
}
