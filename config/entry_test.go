package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readEntry reads a file with one entry, and returns its problems as text.
func readEntry(t *testing.T, members string) (*File, string) {
	t.Helper()
	text := []byte(`{"servers": {"s": {` + members + `}}}`)
	f, err := Parse(text, "mcp.json", env(map[string]string{"HOST": "h"}))
	require.NoError(t, err)
	checkSchema(t, text, f)
	var problems []string
	for _, p := range f.Problems {
		problems = append(problems, p.String())
	}
	return f, strings.Join(problems, "\n")
}

// Hosts spell the type of an endpoint in many ways.
func TestType(t *testing.T) {
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

func TestType_sse(t *testing.T) {
	for _, members := range []string{`"type": "sse"`, `"transport": "SSE"`} {
		f, problems := readEntry(t, members+`, "url": "https://h/sse"`)
		require.Empty(t, problems, members)
		require.True(t, f.Servers[0].Spec.HTTP.SSE, members)
		require.Equal(t, "https://h/sse", f.Servers[0].Spec.HTTP.URL)
	}
	f, problems := readEntry(t, `"url": "https://h/sse"`)
	require.Empty(t, problems)
	require.False(t, f.Servers[0].Spec.HTTP.SSE, "it is found out at the start")
}

// Gemini CLI writes the endpoint of Streamable HTTP as httpUrl, and prefers it to url.
func TestHTTPURL_of_Gemini_CLI(t *testing.T) {
	for _, members := range []string{`"httpUrl": "https://h/mcp"`, `"httpUrl": "https://h/mcp", "url": "https://h/sse"`, `"url": "https://h/sse", "httpUrl": "https://h/mcp"`} {
		f, problems := readEntry(t, members)
		require.Empty(t, problems, members)
		require.Equal(t, "https://h/mcp", f.Servers[0].Spec.HTTP.URL)
	}
}

// An entry that contradicts itself is rejected as a whole.
func TestEntry_rejected(t *testing.T) {
	for members, says := range map[string]string{
		`"type": "stdio", "url": "https://h/mcp"`:             `config mcp.json:1:28: server "s" has type "stdio" and no "command"; name`,
		`"type": "http", "command": "x"`:                      `config mcp.json:1:28: server "s" has type "http" and no "url"; give`,
		`"type": "tcp", "url": "https://h/mcp"`:               `type "tcp" is unknown`,
		`"type": "sse", "command": "x"`:                       `config mcp.json:1:28: server "s" has type "sse" and no "url"; give`,
		`"type": "sse", "url": "https://h", "era": "modern"`:  `the transport HTTP+SSE does not know`,
		`"type": 7, "url": "https://h/mcp"`:                   `"type" must be a string; write it in double quotes`,
		`"era": "old", "url": "https://h/mcp"`:                `"era" is "old"; use`,
		`"standby": true, "url": "https://h/mcp"`:             `standby: a server over HTTP`,
		`"url": "${HOST}"`:                                    `URL must begin with`,
		`"command": "x", "command": "y"`:                      `mcp.json:1:36: server "s": "command" is set twice; remove one`,
		`"command": "x", "env": {"A": "1", "A": "2"}`:         `"env.A" is set twice`,
		`"comand": "x"`:                                       `config mcp.json:1:20: server "s": unknown key "comand" (did you mean "command"?), so it has neither "command" nor "url"`,
		`"type": "stdio", "comand": "x"`:                      `unknown key "comand" (did you mean "command"?), so it has type "stdio" and no "command"`,
		`"ulr": "https://h/mcp"`:                              `unknown key "ulr" (did you mean "url"?), so it has neither`,
		`"command": ["./x", "-v"]`:                            `"command" must be a string; put the first element into "command", the rest into "args"`,
		`"command": "x", "args": "y"`:                         `"args" must be a list of strings; write ["…", "…"]`,
		`"command": "x", "env": ["A"]`:                        `"env" must be an object of strings; write {"NAME"`,
		`"command": "x", "env": {"A": null}`:                  `"env.A" must be a string`,
		`"command": "x", "inherit_env": "yes"`:                `"inherit_env" must be true or false; write it without quotes`,
		`"command": "x", "limits": {"max_items": 1.5}`:        `"limits.max_items" must be a whole number from 0 to 2147483647`,
		`"command": "x", "limits": {"max_items": -1}`:         `"limits.max_items" must be a whole number from 0 to 2147483647`,
		`"command": "x", "limits": {"max_items": 4294967296}`: `"limits.max_items" must be a whole number from 0 to 2147483647`,
		`"command": "x", "timeouts": {"call": 1e300}`:         `"timeouts.call" must be a duration; write "500ms"`,
		`"command": "x", "timeouts": {"shutdown": "-1s"}`:     `"shutdown" in "timeouts" is negative`,
		`"command": "x", "retry": {"jitter": "much"}`:         `"retry.jitter" must be a number from 0 to 1; write 0.2`,
		`"command": "x", "retry": {"base": "1s", "on": 1}`:    `unknown key "retry.on" is ignored`,
		`"command": "x", "retry": {"parc": "5m"}`:             `unknown key "retry.parc" is ignored; did you mean "park"?; a "retry" object replaces the default policy, so without "park" the server is evicted`,
		`"command": "x", "limits": {"description": "y"}`:      `unknown key "limits.description" is ignored`,
	} {
		f, problems := readEntry(t, members)
		require.Contains(t, problems, says, members)
		if !strings.Contains(says, "is ignored") {
			require.Len(t, f.Problems, 1, members)
			require.Empty(t, f.Servers, members)
		}
	}
}

// A disabled entry is not checked. One of "disabled" and "enabled" is enough to
// disable it.
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

// Other hosts' "timeout" is in seconds or in milliseconds. Any other value is
// ignored.
func TestTimeout_of_other_hosts(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "999": 999 * time.Second, "1000": time.Second,
		"60000": time.Minute, "0": 0, "-5": 0, "1e12": 0, `"60s"`: 0} {
		f, problems := readEntry(t, `"command": "x", "timeout": `+text)
		require.Contains(t, problems, "warning", text)
		require.Equal(t, want, f.Servers[0].Spec.Timeouts.Call, text)
	}
}

// The warning about a "timeout" that is ignored has the user's value.
func TestTimeout_of_other_hosts_ignored(t *testing.T) {
	for text, says := range map[string]string{
		`"2m"`:            `write "timeouts": {"call": "2m"}`,
		`{"call": "2m"}`:  `write "timeouts": {"call": "2m"}`,
		`{ "call" : 90 }`: `write "timeouts": {"call": 90}`,
		`"soon"`:          `write "timeouts": {"call": "60s"}`,
		`-5`:              `write "timeouts": {"call": "60s"}`,
	} {
		_, problems := readEntry(t, `"command": "x", "timeout": `+text)
		require.Contains(t, problems, says, text)
	}
}

// A timeout without progress that is longer than that of the whole call has no effect.
func TestTimeouts_call_longer_than_call_total(t *testing.T) {
	const says = `config mcp.json:1:57: warning: server "s": "timeouts.call" is 20m0s and "timeouts.call_total" 10m0s, which ends the call first; raise both`
	_, problems := readEntry(t, `"command": "x", "timeouts": {"call": "20m"}`)
	require.Equal(t, says, problems)
	_, problems = readEntry(t, `"command": "x", "timeout": 1200000`)
	require.Contains(t, problems, `"timeouts.call" is 20m0s`)
	for _, timeouts := range []string{`{"call": "20m", "call_total": "20m"}`, `{"call": "-1s"}`, `{"call": "20m", "call_total": "-1s"}`} {
		_, problems = readEntry(t, `"command": "x", "timeouts": `+timeouts)
		require.Empty(t, problems, timeouts)
	}
}

func TestProbe(t *testing.T) {
	for text, want := range map[string]time.Duration{"false": -1, "true": 0, `{"interval": "7s"}`: 7 * time.Second} {
		f, problems := readEntry(t, `"command": "x", "probe": `+text)
		require.Empty(t, problems)
		require.Equal(t, want, f.Servers[0].Spec.Probe.Interval, text)
	}
}

// A comment may stand behind quotes, as other readers of such files have it.
func TestParseAssignment(t *testing.T) {
	for line, want := range map[string]string{
		`A="q v"`: "q v", `A="q v" # c`: "q v", `A='q "v"'# c`: `q "v"`, `A="a # b"`: "a # b", `A="a" # "b"`: "a",
		`A=x # c`: "x # c", `A="a"b"`: `a"b`, `A="`: `"`, `A="x`: `"x`, `A=`: "", `export A="" # none`: "",
	} {
		name, value, ok := parseAssignment(line)
		require.True(t, ok, line)
		require.Equal(t, "A", name)
		require.Equal(t, want, value, line)
	}
}
