package transport

import (
	"os"
	"runtime"
	"sort"
	"strings"

	"github.com/mcpvisor/mcpvisor/messages"
)

// inherited is what a child gets of the host's environment unless its spec
// says InheritEnv: what programs need to find themselves, and nothing that
// tends to hold secrets.
var inherited = []string{
	"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ",
	"TMPDIR", "TMP", "TEMP", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
}

var inheritedWindows = []string{
	"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE",
	"PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR",
}

// childEnv is the environment of a stdio server, sorted.
func childEnv(s *messages.Stdio) []string {
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
		if s.InheritEnv || allowed(name) {
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

func allowed(name string) bool {
	if strings.HasPrefix(name, "LC_") {
		return true
	}
	for _, n := range inherited {
		if n == name {
			return true
		}
	}
	if runtime.GOOS == "windows" {
		for _, n := range inheritedWindows {
			if strings.EqualFold(n, name) {
				return true
			}
		}
		return strings.EqualFold(name, "PATH")
	}
	return false
}
