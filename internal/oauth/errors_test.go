package oauth

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

func TestErrorResponse_oversize(t *testing.T) {
	a := &Authorizer{}
	secret := "a-long-secret-of-ours"
	a.redactor.addPermanent(secret)
	r := a.newErrorResponse(strings.Repeat("c", 1<<20), strings.Repeat("d", display.MaxQuoteBytes-5)+secret)
	require.Less(t, len(r.Error()), 3*display.MaxQuoteBytes)
	require.NotContains(t, r.Error(), secret[:5], "no part of a secret is shown")
	require.Equal(t, "access_denied (no way)", a.newErrorResponse("access_denied", "no way").Error())
	a.redactor.addPermanent(strings.Repeat("x", 600))
	require.Equal(t, "e (***)", a.newErrorResponse("e", strings.Repeat("x", 600)).Error())
}
