package defaults

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The least limit of a cgroup and its parents counts, in both versions, also where a container sees its own
// cgroup as the root.
func TestCgroupLimit(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"memory.max": "max\n", "pod/memory.max": "536870912\n", "pod/app/memory.max": "max\n",
		"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/docker/x/memory.limit_in_bytes": "268435456\n",
		"container/memory.max": "1048576\n",
	} {
		path := filepath.Join(root, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for own, want := range map[string]int64{
		"0::/pod/app\n": 512 << 20,
		"0::/\n":        math.MaxInt64,
		"":              math.MaxInt64,
		"12:cpu,memory:/docker/x\n11:pids:/docker/x\n0::/\n": 256 << 20,
		"12:memory:/\n": 9223372036854771712,
		"nonsense":      math.MaxInt64,
	} {
		require.Equal(t, want, cgroupLimit(root, own), own)
	}
	require.EqualValues(t, 1<<20, cgroupLimit(filepath.Join(root, "container"), "0::/gone/../../not/seen\n"))
	require.Equal(t, 7, Within(7, 1))
	require.LessOrEqual(t, Within(math.MaxInt64, 2), math.MaxInt64/2)
}
