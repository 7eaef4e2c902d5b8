package transport

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

// secrets are variables that hosts have and servers are not to see.
var secrets = []string{
	"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "NPM_TOKEN", "DATABASE_URL",
	"SSH_AUTH_SOCK", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV",
	"MY_PROXY", "PROXY", "GOFLAGS", "DISPLAYS", "XDG", "MY_HOME", "HOMEX", "PATHS", "XLC_ALL", "LC", "home", "MCP_ANYTHING",
}

// inheritedHere are variables that hosts have and servers need.
var inheritedHere = []string{"LANG", "TZ", "LC_ALL", "LC_MESSAGES", "XDG_CACHE_HOME", "XDG_DATA_DIRS", "XDG_SESSION_TYPE", "SSL_CERT_FILE",
	"NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "https_proxy", "NO_PROXY", "all_proxy", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "KUBECONFIG"}

const envCanary = "canary-41d9"

// setHost gives this process variables that look like those of a host.
func setHost(t *testing.T) {
	t.Helper()
	for _, name := range secrets {
		t.Setenv(name, envCanary)
	}
	for _, name := range inheritedHere {
		t.Setenv(name, "host's "+name)
	}
	t.Setenv("TERM", "")
}

func lookUp(env []string, name string) (string, bool) {
	for _, entry := range env {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value, true
		}
	}
	return "", false
}

func TestSecretsAreNotInherited(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names are the same in upper and lower case there")
	}
	setHost(t)
	env := childEnv(&mcpvisor.Stdio{})
	require.NotContains(t, strings.Join(env, "\n"), envCanary)
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		require.True(t, environ.Inherits(name), name)
	}
}

func TestWhatIsInherited(t *testing.T) {
	setHost(t)
	env := childEnv(&mcpvisor.Stdio{})
	for _, name := range inheritedHere {
		value, ok := lookUp(env, name)
		require.True(t, ok, name)
		require.Equal(t, "host's "+name, value)
	}
	path, ok := lookUp(env, "PATH")
	require.True(t, ok)
	require.Equal(t, os.Getenv("PATH"), path)
	value, ok := lookUp(env, "TERM")
	require.True(t, ok, "empty is not absent")
	require.Empty(t, value)
	t.Setenv("TZ", "") // so that it is put back
	require.NoError(t, os.Unsetenv("TZ"))
	_, ok = lookUp(childEnv(&mcpvisor.Stdio{}), "TZ")
	require.False(t, ok, "absent is not empty")
}

func TestExplicitEnvironmentWins(t *testing.T) {
	setHost(t)
	for _, inherit := range []bool{false, true} {
		env := childEnv(&mcpvisor.Stdio{InheritEnv: inherit, Env: map[string]string{
			"LANG": "mine", "GITHUB_TOKEN": "given on purpose", "TZ": "", "NEW": "a=b\nc"}})
		for name, want := range map[string]string{"LANG": "mine", "GITHUB_TOKEN": "given on purpose", "TZ": "", "NEW": "a=b\nc"} {
			value, ok := lookUp(env, name)
			require.True(t, ok, name)
			require.Equal(t, want, value, name)
		}
		require.True(t, slices.IsSorted(env))
		names := map[string]bool{}
		for _, entry := range env {
			name, _, found := strings.Cut(entry, "=")
			require.True(t, found)
			require.False(t, names[name], "%s is there twice", name)
			names[name] = true
		}
	}
}

func TestWholeEnvironmentOnRequest(t *testing.T) {
	setHost(t)
	env := childEnv(&mcpvisor.Stdio{InheritEnv: true})
	for _, name := range secrets {
		value, ok := lookUp(env, name)
		require.True(t, ok, name)
		require.Equal(t, envCanary, value)
	}
}

// TestChildSeesItsEnvironment asks a real process.
func TestChildSeesItsEnvironment(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no env")
	}
	setHost(t)
	c, cause := startChild(&mcpvisor.Stdio{Command: "sh", Args: []string{"-c", "env >&2"}, Env: map[string]string{"GIVEN": "yes"}}, 200, nil)
	require.Nil(t, cause)
	<-c.Exited()
	<-c.errDone
	c.Release()
	said := c.Exit().Stderr
	require.Contains(t, said, "GIVEN=yes")
	require.Contains(t, said, "LC_ALL=host's LC_ALL")
	require.NotContains(t, strings.Join(said, "\n"), envCanary)
}
