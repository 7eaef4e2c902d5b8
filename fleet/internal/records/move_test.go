package records_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/fleet/internal/records"
	"github.com/mcpvisor/mcpvisor/fleet/store"
)

func TestRequestMove(t *testing.T) {
	s := newStore(t)
	put(t, s, "spec/a", `{"v":1,"labels":{"zone":"1"}}`)
	put(t, s, "spec/ab", `{"v":1}`)
	put(t, s, "spec/later", `{"v":2}`)
	put(t, s, "nodes/n1/a", `{"v":1,"labels":{"zone":"1"}}`)
	put(t, s, "nodes/n10/a", `{"v":1}`)
	put(t, s, "nodes/drains/b", `{"v":1}`)
	put(t, s, "nodes/drains/a", `{"v":1,"draining":true}`) // newer
	put(t, s, "nodes/later/a", `{"v":2}`)
	before := values(t, s)
	for problem, move := range map[string][2]string{
		`the fleet has no such server`:                {"b", "n1"},
		`the record has version 2`:                    {"later", "n1"},
		`the fleet has no such node`:                  {"a", "n"},
		`the node hands over all its servers (drain)`: {"a", "drains"},
		`the node does not have the labels`:           {"a", "n10"},
		`node "later": the record has version 2`:      {"a", "later"},
	} {
		_, err := records.RequestMove(t.Context(), s, move[0], move[1])
		require.ErrorContains(t, err, problem)
		require.Equal(t, before, values(t, s))
	}
	lease, err := records.RequestMove(t.Context(), s, "a", "n1")
	require.NoError(t, err)
	require.Equal(t, `{"v":1,"node":"n1"}`, values(t, s)["move/a"])
	require.NoError(t, s.Revoke(t.Context(), lease))
	require.Equal(t, before, values(t, s), "the lease ends it")

	s.before = func(int) error {
		_, err := s.Store.Commit(t.Context(), store.Txn{Then: []store.Change{store.Remove("spec/a")}})
		return err
	}
	_, err = records.RequestMove(t.Context(), s, "a", "n1")
	require.ErrorContains(t, err, `the server was removed`)
	require.NotContains(t, values(t, s), "move/a")
}
