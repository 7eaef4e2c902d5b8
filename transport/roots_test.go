package transport

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// The list is the host's, and what it does with its slice afterwards is its own
// affair.
func TestRootsAreACopy(t *testing.T) {
	mine := []*mcp.Root{{URI: "file:///a"}}
	roots := NewRoots(mine)
	roots.Set(mine)
	mine[0] = nil
	list, _ := roots.Current()
	require.Equal(t, "file:///a", list[0].URI)
}

// A change while a session is being opened is not missed.
func TestRootsThatChangedMeanwhile(t *testing.T) {
	roots := NewRoots(nil)
	_, since := roots.Current()
	roots.Set(nil)
	told := 0
	unfollow := roots.Follow(since, func() { told++ })
	require.Equal(t, 1, told)
	roots.Set(nil)
	require.Equal(t, 2, told)
	unfollow()
	roots.Set(nil)
	require.Equal(t, 2, told)
}
