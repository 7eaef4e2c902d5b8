package transport

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// The host may change its slice after Set.
func TestRoots_Set_copies_the_list(t *testing.T) {
	mine := []*mcp.Root{{URI: "file:///a"}}
	roots := NewRoots(mine)
	roots.Set(mine)
	mine[0] = nil
	list, _ := roots.Current()
	require.Equal(t, "file:///a", list[0].URI)
}

// A change between Current and Follow is not missed.
func TestRoots_Follow(t *testing.T) {
	roots := NewRoots(nil)
	_, since := roots.Current()
	roots.Set(nil)
	calls := 0
	unfollow := roots.Follow(since, func() { calls++ })
	require.Equal(t, 1, calls)
	roots.Set(nil)
	require.Equal(t, 2, calls)
	unfollow()
	roots.Set(nil)
	require.Equal(t, 2, calls)
}
