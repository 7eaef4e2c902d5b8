package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// read reads one entry of a file, and returns what is wrong with it.
func readEntry(t *testing.T, members string) (*File, string) {
	t.Helper()
	f, err := Parse([]byte(`{"servers": {"s": {`+members+`}}}`), "mcp.json", env(map[string]string{"HOST": "h"}))
	require.NoError(t, err)
	var problems []string
	for _, p := range f.Problems {
		problems = append(problems, p.String())
	}
	return f, strings.Join(problems, "\n")
}

// Hosts write the type of an endpoint in many ways; all of them are understood.
func TestTypes(t *testing.T) {
	for _, kind := range []string{"http", "HTTP", "streamable-http", "streamable_http", "streamableHttp", "remote"} {
		for _, key := range []string{"type", "transport"} {
			f, problems := readEntry(t, `"`+key+`": "`+kind+`", "url": "https://h/mcp"`)
			require.Empty(t, problems, kind)
			require.Equal(t, "https://h/mcp", f.Servers[0].Spec.HTTP.URL)
		}
	}
	for _, kind := range []string{"stdio", "local"} {
		f, problems := readEntry(t, `"type": "`+kind+`", "command": "x"`)
		require.Empty(t, problems, kind)
		require.Equal(t, "x", f.Servers[0].Spec.Stdio.Command)
	}
}

func TestTypeSSE(t *testing.T) {
	for _, members := range []string{`"type": "sse"`, `"transport": "SSE"`} {
		f, problems := readEntry(t, members+`, "url": "https://h/sse"`)
		require.Empty(t, problems, members)
		require.True(t, f.Servers[0].Spec.HTTP.SSE, members)
		require.Equal(t, "https://h/sse", f.Servers[0].Spec.HTTP.URL)
	}
	f, problems := readEntry(t, `"url": "https://h/sse"`)
	require.Empty(t, problems)
	require.False(t, f.Servers[0].Spec.HTTP.SSE, "it is found out")
}

// An entry that says what it is and does not fit that is used as nothing else.
func TestTypeThatDoesNotFit(t *testing.T) {
	for members, says := range map[string]string{
		`"type": "stdio", "url": "https://h/mcp"`:            `mcp.json:1:28: server "s": it is of type "stdio" and has no "command"`,
		`"type": "http", "command": "x"`:                     `mcp.json:1:28: server "s": it is of type "http" and has no "url"`,
		`"type": "websocket", "url": "https://h/mcp"`:        `type "websocket" is unknown`,
		`"type": "sse", "command": "x"`:                      `mcp.json:1:28: server "s": it is of type "sse" and has no "url"`,
		`"type": "sse", "url": "https://h", "era": "modern"`: `the transport HTTP+SSE does not know`,
		`"type": 7, "url": "https://h/mcp"`:                  `a string is expected here`,
		`"era": "old", "url": "https://h/mcp"`:               `era "old" is unknown`,
		`"standby": true, "url": "https://h/mcp"`:            `standby: a server over HTTP`,
		`"url": "${HOST}"`:                                   `URL must begin with`,
		`"command": "x", "command": "y"`:                     `mcp.json:1:36: server "s": "command" stands there twice`,
		`"command": "x", "env": {"A": "1", "A": "2"}`:        `"A" stands there twice`,
		`"command": "x", "args": "y"`:                        `a list of strings is expected`,
		`"command": "x", "env": ["A"]`:                       `an object of strings is expected`,
		`"command": "x", "env": {"A": null}`:                 `a string is expected here`,
		`"command": "x", "inherit_env": "yes"`:               `true or false is expected here`,
		`"command": "x", "limits": {"items": 1.5}`:           `a whole number from 0 up`,
		`"command": "x", "limits": {"items": -1}`:            `a whole number from 0 up`,
		`"command": "x", "limits": {"items": 4294967296}`:    `a whole number from 0 up`,
		`"command": "x", "timeouts": {"call": 1e300}`:        `a duration is expected here`,
		`"command": "x", "timeouts": {"shutdown": "-1s"}`:    `Shutdown is negative`,
		`"command": "x", "retry": {"jitter": "much"}`:        `a number between 0 and 1`,
		`"command": "x", "retry": {"base": "1s", "on": 1}`:   `unknown key "on"`,
		`"command": "x", "limits": {"description": "y"}`:     `unknown key "description" is not used`,
	} {
		f, problems := readEntry(t, members)
		require.Contains(t, problems, says, members)
		if !strings.Contains(says, "unknown key") {
			require.Empty(t, f.Servers, members)
		}
	}
}

// Nobody starts what is disabled, so that what it lacks is no problem; and one
// word that disables it is enough.
func TestDisabled(t *testing.T) {
	for _, members := range []string{
		`"command": "${NOT_SET}", "nonsense": 1, "disabled": true`,
		`"disabled": true, "enabled": true, "type": "sse"`,
		`"enabled": false, "url": 7`,
	} {
		f, problems := readEntry(t, members)
		require.Empty(t, problems, members)
		require.Len(t, f.Servers, 1, members)
		require.True(t, f.Servers[0].Disabled, members)
		require.Equal(t, "s", f.Servers[0].Spec.Name)
		require.Empty(t, f.Specs())
	}
	f, problems := readEntry(t, `"command": "x", "disabled": false, "enabled": true`)
	require.Empty(t, problems)
	require.False(t, f.Servers[0].Disabled)
}

// Other hosts' "timeout" is in seconds or in milliseconds, and what is neither is
// not used.
func TestTimeoutOfOtherHosts(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "999": 999 * time.Second, "1000": time.Second,
		"60000": time.Minute, "0": 0, "-5": 0, "1e12": 0, `"60s"`: 0} {
		f, problems := readEntry(t, `"command": "x", "timeout": `+text)
		require.Contains(t, problems, "warning", text)
		require.Equal(t, want, f.Servers[0].Spec.Timeouts.Call, text)
	}
}

func TestProbeForms(t *testing.T) {
	for text, want := range map[string]time.Duration{"false": -1, "true": 0, `{"every": "7s"}`: 7 * time.Second} {
		f, problems := readEntry(t, `"command": "x", "probe": `+text)
		require.Empty(t, problems)
		require.Equal(t, want, f.Servers[0].Spec.Probe.Interval, text)
	}
}
