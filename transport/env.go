package transport

import (
	"os"
	"runtime"
	"sort"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/environ"
)

// childEnv is the environment of a stdio server, sorted: what package environ
// lets through of the host's, or all of that, and what the spec says.
func childEnv(s *mcpvisor.Stdio) []string {
	vars := map[string]string{} // key → entry
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
