package defaults

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Within returns a default for an amount of memory: most, but at most one part of what this process may
// use by GOMEMLIMIT and by its cgroup.
func Within(most, parts int) int { return int(min(int64(most), memoryLimit()/int64(parts))) }

// memoryLimit is the least of the limits of memory of this process when it is first asked for, in bytes.
var memoryLimit = sync.OnceValue(func() int64 {
	own, _ := os.ReadFile("/proc/self/cgroup") // none on other systems
	return min(debug.SetMemoryLimit(-1), cgroupLimit("/sys/fs/cgroup", string(own)))
})

// cgroupLimit returns the least limit of memory of a cgroup and of those that it is in. root is where they
// are mounted, and own the text of /proc/self/cgroup. A container often sees its own cgroup as the root.
func cgroupLimit(root, own string) int64 {
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy-ID:controller-list:cgroup-path (cgroups(7))
		if len(fields) < 3 {
			continue
		}
		dir, file := root, "memory.max"
		if fields[1] != "" {
			if !strings.Contains(","+fields[1]+",", ",memory,") {
				continue
			}
			dir, file = path.Join(root, "memory"), "memory.limit_in_bytes"
		}
		for at := path.Clean("/" + fields[2]); ; at = path.Dir(at) {
			text, _ := os.ReadFile(path.Join(dir, at, file))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 { // else "max"
				limit = min(limit, n)
			}
			if at == "/" {
				break
			}
		}
	}
	return limit
}
