package auth

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/messages"
)

// What is at hand is hidden, whatever else there was meanwhile; what was at hand
// until a moment ago, too.
func TestSecretsAtHandStayHidden(t *testing.T) {
	var s secrets
	s.keep("of-the-spec")
	s.hold("access-1", "refresh-1")
	many := func() {
		for i := range 2 * secretsKept {
			s.hide(fmt.Sprintf("state-%04d", i))
		}
	}
	many()
	s.hold("access-2", "refresh-2")
	require.Equal(t, "*** *** *** *** ***", s.replace("of-the-spec access-1 refresh-1 access-2 refresh-2"))
	many()
	require.Equal(t, "*** *** *** access-1", s.replace("of-the-spec access-2 refresh-2 access-1"))

	s.hide("used-again")
	for i := range secretsKept - 1 {
		s.hide(fmt.Sprintf("other-%04d", i))
	}
	s.hide("used-again", "and-one-more")
	require.Equal(t, "***", s.replace("used-again"), "what is used last is dropped last")
	require.LessOrEqual(t, len(s.recent), secretsKept)
}

func TestTokenAtHandStaysHidden(t *testing.T) {
	s := newAuthority(t, mcptest.AuthorityRules{})
	a := newAuthorizer(t, s, messages.OAuth{Visit: visit})
	requireOK(t, a)
	for i := range 2 * secretsKept {
		a.secrets.hide(fmt.Sprintf("state-%04d", i))
	}
	require.Equal(t, "you sent ***", a.Hide("you sent "+a.Held()))
	require.Equal(t, "you sent ***", a.Hide("you sent "+a.held.RefreshToken))
}
