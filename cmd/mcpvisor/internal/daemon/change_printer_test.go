package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestChangedNames(t *testing.T) {
	require.Equal(t, "added fs/a fs/b fs/c …; removed fs/sum; changed fs/read", changedNames(&mcpvisor.Change{
		Tools: mcpvisor.Delta{Added: []string{"fs/a", "fs/b", "fs/c", "fs/d"}, Changed: []string{"fs/read"}}, Prompts: mcpvisor.Delta{Removed: []string{"fs/sum"}}}))
	require.Empty(t, changedNames(&mcpvisor.Change{Instructions: true}))
	require.Empty(t, changedNames(nil))
}
