package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// The secrets of the entries below.
const (
	secretText  = "Canary-4711-secret"
	secretJWT   = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ"
	secretToken = "Q2FuYXJ5LTQ3MTEtMDAwMQ"
)

// leakScript is a server that prints its arguments and its environment to stderr and
// stdout, as a debugger would, and exits.
const leakScript = `printf '%s\n' "$@" >&2; env >&2; printf '%s\n' "$@"; env; exit 3`

// leakyEntries are entries with the common forms of secrets, by form.
func leakyEntries() map[string]map[string]any {
	args := func(more ...string) map[string]any { return map[string]any{"args": more} }
	env := func(name, value string) map[string]any { return map[string]any{"env": map[string]string{name: value}} }
	return map[string]map[string]any{
		"key in the environment":    env("SOME_API_KEY", secretText),
		"flag":                      args("--api-key", secretText),
		"bearer header":             args("--header", "Authorization: Bearer "+secretText),
		"bearer JWT":                args("--header", "Authorization: Bearer "+secretJWT),
		"key header":                args("--header", "X-API-Key: "+secretText),
		"headers as JSON":           env("OPENAPI_MCP_HEADERS", `{"Authorization":"Bearer `+secretText+`"}`),
		"second query parameter":    args("https://mcp.example/x?profile=me&api_key=" + secretText),
		"query in the environment":  env("ENDPOINT", "https://mcp.example/x?profile=me&token="+secretText),
		"connection string":         env("CONNECTION", "Server=db;User Id=me;Password="+secretText+";Encrypt=true"),
		"token in the path":         args("https://mcp.example/s/" + secretToken + "/mcp"),
		"proxy of the host":         {},
		"whole host's environment":  {"inherit_env": true},
		"secret in a line of shell": env("RUN", "curl -H 'Authorization: Bearer "+secretText+"' https://mcp.example"),
	}
}

// A secret of a server is in no output of the commands or of the library.
func TestSecrets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	for name, server := range leakyEntries() {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "proxy of the host":
				t.Setenv("HTTPS_PROXY", "http://me:"+secretText+"@proxy.example:3128")
			case "whole host's environment":
				t.Setenv("GITHUB_TOKEN", secretText)
			}
			args, _ := server["args"].([]string)
			server["command"], server["args"], server["retry"] = "sh", append([]string{"-c", leakScript, "sh"}, args...), false
			server["limits"] = map[string]any{"max_stderr_lines": 1000}
			shown := allOutput(t, server, "doctor", "--json status", "call one/x")
			for what, text := range shown {
				requireHidden(t, what, text, name)
			}
			require.Contains(t, shown["doctor"], "***", "the server printed it")
		})
	}
}

// requireHidden fails if a text has the secret of one entry.
func requireHidden(t *testing.T, what, text, name string) {
	t.Helper()
	secret := map[string]string{"bearer JWT": secretJWT, "token in the path": secretToken}[name]
	if secret == "" {
		secret = secretText
	}
	require.NotContains(t, text, secret, what)
}

// allOutput returns what the library and the commands show about a server.
func allOutput(t *testing.T, server map[string]any, commands ...string) map[string]string {
	t.Helper()
	path := serversFile(t, map[string]any{"one": server})
	shown := map[string]string{}
	for _, command := range commands {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"-c", path}, strings.Fields(command)...), strings.NewReader(""), &out, &errs)
		require.Equal(t, cli.ExitUnavailable, code, "%s: %s", out.String(), errs.String())
		shown[command] = out.String() + errs.String()
	}

	var log testutil.LockedBuffer
	file, err := config.Load(path)
	require.NoError(t, err)
	c, err := facade.New(facade.WithLogger(zerolog.New(&log).Level(zerolog.TraceLevel)))
	require.NoError(t, err)
	events := c.Watch(t.Context())
	spec := file.Specs()[0]
	spec.StartSupervised = false
	cause := c.Register(t.Context(), spec)
	require.Error(t, cause)
	status, err := json.Marshal(c.Status())
	require.NoError(t, err)
	shown["error"], shown["status"] = fmt.Sprintf("%v %+v", cause, cause), string(status)
	require.NoError(t, c.Close(t.Context()))
	for e := range events {
		text, err := json.Marshal(e)
		require.NoError(t, err)
		shown["events"] += e.String() + string(text)
	}
	shown["log"] = log.String()
	for what, text := range shown {
		require.NotEmpty(t, text, what)
	}
	return shown
}

// A whole command line in "command" fails, and its error quotes it without secrets.
func TestSecrets_in_command(t *testing.T) {
	for what, text := range allOutput(t, map[string]any{"command": "no-such-server --api-key " + secretText + " --port 1", "retry": false}, "doctor", "--json status") {
		require.NotContains(t, text, secretText, what)
		if what != "log" && what != "status" {
			require.Contains(t, text, "no-such-server", what)
		}
	}
}

// The token in the URL of a server over HTTP is hidden, too.
func TestSecrets_in_URL(t *testing.T) {
	for code, reply := range map[int]string{401: "application/json", 404: "text/plain", 500: "text/plain", 200: "text/html", 302: ""} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", reply)
				w.Header().Set("Location", r.URL.String()+"/x")
				w.WriteHeader(code)
				fmt.Fprintf(w, "no access to %s", r.URL)
			}))
			defer web.Close()
			for _, auth := range []bool{false, true} {
				server := map[string]any{"url": web.URL + "/s/" + secretToken + "/mcp", "retry": false, "auth": auth}
				for what, text := range allOutput(t, server, "doctor", "--json status") {
					require.NotContains(t, text, secretToken, what)
				}
			}
		})
	}
}

// Servers may repeat in their lists what they were given. The commands and the page hide that, and a value
// that has it can be sent anyway.
func TestLists_hide_secrets(t *testing.T) {
	t.Setenv("PATHX", secretText)
	secretFile := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secretFile, []byte("From-a-file-4711"), 0o600))
	const about = "Uses " + secretText + " and From-a-file-4711."
	server := entry(mcptest.Script{
		Tools: []mcptest.ToolDef{{Name: "t", Description: about, Text: "ok", InputSchema: json.RawMessage(
			`{"type":"object","properties":{"key":{"enum":["From-a-file-4711"]}}}`)}},
		Prompts: []mcptest.PromptDef{{Name: "p", Description: about}},
	})
	env, _ := server["env"].(map[string]string)
	env["THE_TOKEN"], env["OTHER"] = "${PATHX}", "${file:"+secretFile+"}"
	b := startRun(t, map[string]any{"one": server}, "run", "--http", "127.0.0.1:0")
	page := pageOf(b)
	b.await(" ready: ")
	for _, path := range []string{"api/servers/one/tools", "api/search?q=uses"} {
		_, body := request(t, http.MethodGet, page+path, "")
		require.Contains(t, body, "Uses *** and ***.")
		require.NotContains(t, body, secretText)
		require.NotContains(t, body, "From-a-file")
	}
	_, body := request(t, http.MethodGet, page+"api/search?q=from-a-file", "")
	require.Contains(t, body, `"tools":[]`, "what is hidden is not found")
	path := b.config
	b.stop()
	for _, args := range [][]string{{"tools"}, {"tools", "one"}, {"--json", "tools", "one/t"}, {"prompts"}, {"--json", "prompts"}} {
		out := toolExits(t, cli.ExitOK, append([]string{"-c", path}, args...)...)
		require.Contains(t, out, "Uses *** and ***.")
		require.NotContains(t, out, secretText)
		require.NotContains(t, out, "From-a-file")
	}
	toolExits(t, cli.ExitOK, "-c", path, "call", "one/t", "key=From-a-file-4711")
}
