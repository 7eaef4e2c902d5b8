package process

import (
	"os"
	"runtime"
	"sort"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/environ"
)

// Environ returns the environment of a stdio server, sorted: the variables of the
// host that [environ.Inherits] names, or all of them with InheritEnv, overridden by
// Env of the spec. The process tag is not part of it.
func Environ(s *mcpvisor.Stdio) []string {
	vars := map[string]string{} // name → entry
	put := func(entry string) {
		if name, _, ok := strings.Cut(entry, "="); ok && name != "" {
			if runtime.GOOS == "windows" { // where PATH and Path are one variable
				name = strings.ToUpper(name)
			}
			vars[name] = entry
		}
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if s.InheritEnv || environ.Inherits(name) {
			put(entry)
		}
	}
	for name, value := range s.Env {
		put(name + "=" + value)
	}
	env := make([]string, 0, len(vars))
	for _, entry := range vars {
		env = append(env, entry)
	}
	sort.Strings(env)
	return env
}
