package process

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/environ"
)

// secretVars are variables that hosts have and servers must not inherit.
var secretVars = []string{
	"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "NPM_TOKEN", "DATABASE_URL",
	"SSH_AUTH_SOCK", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV",
	"MY_PROXY", "PROXY", "GOFLAGS", "DISPLAYS", "XDG", "MY_HOME", "HOMEX", "PATHS", "XLC_ALL", "LC", "home", "MCP_ANYTHING",
}

// inheritedVars are variables that hosts have and servers need.
var inheritedVars = []string{"LANG", "TZ", "LC_ALL", "LC_MESSAGES", "XDG_CACHE_HOME", "XDG_DATA_DIRS", "XDG_SESSION_TYPE", "SSL_CERT_FILE",
	"NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "https_proxy", "NO_PROXY", "all_proxy", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "KUBECONFIG"}

const envCanary = "canary-41d9"

// setHostEnviron gives this process the variables of a typical host.
func setHostEnviron(t *testing.T) {
	t.Helper()
	for _, name := range secretVars {
		t.Setenv(name, envCanary)
	}
	for _, name := range inheritedVars {
		t.Setenv(name, "host's "+name)
	}
	t.Setenv("TERM", "")
}

func lookupVar(env []string, name string) (string, bool) {
	for _, entry := range env {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value, true
		}
	}
	return "", false
}

func TestEnviron_inherits_no_secrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names of variables have no case on Windows")
	}
	setHostEnviron(t)
	env := Environ(&mcpvisor.Stdio{})
	require.NotContains(t, strings.Join(env, "\n"), envCanary)
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		require.True(t, environ.Inherits(name), name)
	}
}

func TestEnviron_inherits_what_programs_need(t *testing.T) {
	setHostEnviron(t)
	env := Environ(&mcpvisor.Stdio{})
	for _, name := range inheritedVars {
		value, ok := lookupVar(env, name)
		require.True(t, ok, name)
		require.Equal(t, "host's "+name, value)
	}
	path, ok := lookupVar(env, "PATH")
	require.True(t, ok)
	require.Equal(t, os.Getenv("PATH"), path)
	value, ok := lookupVar(env, "TERM")
	require.True(t, ok, "empty is not absent")
	require.Empty(t, value)
	t.Setenv("TZ", "") // so that it is put back
	require.NoError(t, os.Unsetenv("TZ"))
	_, ok = lookupVar(Environ(&mcpvisor.Stdio{}), "TZ")
	require.False(t, ok, "absent is not empty")
}

func TestEnviron_Env_overrides(t *testing.T) {
	setHostEnviron(t)
	for _, inherit := range []bool{false, true} {
		env := Environ(&mcpvisor.Stdio{InheritEnv: inherit, Env: map[string]string{
			"LANG": "mine", "GITHUB_TOKEN": "given on purpose", "TZ": "", "NEW": "a=b\nc"}})
		for name, want := range map[string]string{"LANG": "mine", "GITHUB_TOKEN": "given on purpose", "TZ": "", "NEW": "a=b\nc"} {
			value, ok := lookupVar(env, name)
			require.True(t, ok, name)
			require.Equal(t, want, value, name)
		}
		require.True(t, slices.IsSorted(env))
		names := map[string]bool{}
		for _, entry := range env {
			name, _, found := strings.Cut(entry, "=")
			require.True(t, found)
			require.False(t, names[name], "%s occurs twice", name)
			names[name] = true
		}
	}
}

func TestEnviron_InheritEnv(t *testing.T) {
	setHostEnviron(t)
	env := Environ(&mcpvisor.Stdio{InheritEnv: true})
	for _, name := range secretVars {
		value, ok := lookupVar(env, name)
		require.True(t, ok, name)
		require.Equal(t, envCanary, value)
	}
}

func TestStart_passes_the_environment(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no env")
	}
	setHostEnviron(t)
	c, cause := Start(&mcpvisor.Stdio{Command: "sh", Args: []string{"-c", "env >&2"}, Env: map[string]string{"GIVEN": "yes"}}, 1, 200, nil)
	require.Nil(t, cause)
	<-c.Exited()
	<-c.stderrIn.done
	c.Release()
	lines := c.ExitCause().Stderr
	require.Contains(t, lines, "GIVEN=yes")
	require.Contains(t, lines, "LC_ALL=host's LC_ALL")
	require.NotContains(t, strings.Join(lines, "\n"), envCanary)
}
