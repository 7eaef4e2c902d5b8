package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
)

// manyTools returns a catalog of n tools whose names begin with prefix.
func manyTools(prefix string, n int, description string) *Catalog {
	tools := make([]mcpvisor.Tool, n)
	for i := range tools {
		name := fmt.Sprintf("%s%05d", prefix, i)
		tools[i] = mcpvisor.Tool{Name: "s/" + name, Server: "s", OriginalName: name, Raw: json.RawMessage(`{"description":"` + description + `"}`)}
	}
	return New(Catalog{Tools: tools})
}

func TestDelta(t *testing.T) {
	t.Run("names_the_first_and_counts_the_rest", func(t *testing.T) {
		_, change := manyTools("a", 10_000, "").Refreshed(manyTools("b", 9_000, ""), ListTools)
		d := change.Tools
		require.Len(t, d.Added, retention.DeltaNames)
		require.Len(t, d.Removed, retention.DeltaNames)
		require.Equal(t, 9_000-retention.DeltaNames, d.AddedMore)
		require.Equal(t, 10_000-retention.DeltaNames, d.RemovedMore)
		require.Zero(t, d.ChangedMore)
		require.Equal(t, "s/b00000", d.Added[0])
		require.Equal(t, "tools +9000 −10000 ~0", change.String())

		_, change = manyTools("a", 10_000, "x").Refreshed(manyTools("a", 10_000, "y"), ListTools)
		require.Len(t, change.Tools.Changed, retention.DeltaNames)
		require.Equal(t, "tools +0 −0 ~10000", change.String())
		require.False(t, change.IsZero())
	})
	t.Run("holds_few_bytes_of_long_names", func(t *testing.T) {
		_, change := manyTools("", 0, "").Refreshed(manyTools(strings.Repeat("x", 1<<20), 3, ""), ListTools)
		require.Empty(t, change.Tools.Added)
		require.Equal(t, 3, change.Tools.AddedMore)
		require.False(t, change.IsZero())
	})
	t.Run("shares_no_memory_with_the_catalog", func(t *testing.T) {
		fresh := manyTools("a", 1, "")
		_, change := manyTools("", 0, "").Refreshed(fresh, ListTools)
		require.Equal(t, fresh.Tools[0].Name, change.Tools.Added[0])
		require.NotSame(t, unsafe.StringData(fresh.Tools[0].Name), unsafe.StringData(change.Tools.Added[0]))
	})
}
