package daemon

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
)

// What a node cannot use of "gateway", as one of an older version may, leaves its gateways as they are,
// and is said once. It does not matter whether the node could run the servers.
func TestFollowed(t *testing.T) {
	var errs bytes.Buffer
	f := newFollowed(&servers.Opener{Invocation: cli.Invocation{Context: t.Context(), Err: &errs}})
	since := time.Now()
	definitions := map[string]json.RawMessage{"a": []byte(`{"command": "${NOT_SET_HERE}", "on_down": "5m"}`), "b": []byte(`{"url": 5}`)}
	f.Configured([]byte(`{"profiles": {"read": {"tools": ["read"]}}}`), definitions)
	require.True(t, f.settings.Has("read"))
	require.Empty(t, f.attention(nil, since))

	later := json.RawMessage(`{"profiles": {"all": {}}, "of_a_later_version": 1}`)
	for range 2 {
		f.Configured(later, definitions)
	}
	require.True(t, f.settings.Has("read"))
	require.False(t, f.settings.Has("all"))
	require.Regexp(t, `^this node cannot use "gateway" of the fleet, and offers hosts what it did before: unknown key "gateway.of_a_later_version"[^\n]*\n$`, errs.String())
	all := f.attention(nil, since)
	require.Len(t, all, 1)
	require.Contains(t, all[0].Text, `unknown key "gateway.of_a_later_version"`)
	require.Contains(t, all[0].Action, "mcpvisor fleet apply")

	f.Configured(nil, definitions)
	require.False(t, f.settings.Has("read"))
	require.Empty(t, f.attention(nil, since))
}
