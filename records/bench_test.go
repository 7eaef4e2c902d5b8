package records_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/records"
)

func BenchmarkWriter(b *testing.B) {
	for _, arguments := range []records.Arguments{records.ArgumentsNone, records.ArgumentsWhole} {
		b.Run(string(arguments), func(b *testing.B) {
			w, err := records.Open(filepath.Join(b.TempDir(), "records"), records.Options{WhenFull: records.FullBlock, Arguments: arguments})
			require.NoError(b, err)
			c := call("fs", "read_file", `{"path":"/tmp/a file","limit":100}`)
			b.ReportAllocs()
			for b.Loop() {
				w.Call(c)
			}
			require.NoError(b, w.Close())
		})
	}
}
