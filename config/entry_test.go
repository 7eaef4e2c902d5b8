package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/headerauth"
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/oauth"
)

// mustParse is Parse of a file that can be read.
func mustParse(t *testing.T, text []byte, name string, opts ...Option) *File {
	t.Helper()
	f, err := Parse(text, name, opts...)
	require.NoError(t, err)
	return f
}

// mustLoadFiles is LoadFiles of files that can be read.
func mustLoadFiles(t *testing.T, paths []string, opts ...Option) *File {
	t.Helper()
	f, err := LoadFiles(paths, opts...)
	require.NoError(t, err)
	return f
}

// readEntry reads a file with one entry, and returns its problems as text.
func readEntry(t *testing.T, members string) (*File, string) {
	t.Helper()
	text := []byte(`{"servers": {"s": {` + members + `}}}`)
	f := mustParse(t, text, "mcp.json", env(map[string]string{"HOST": "h"}))
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
		`"command": []`:                                       `"command" is a list without a program; write it as the first element`,
		`"command": ["", "-v"]`:                               `"command" is a list without a program`,
		`"command": ["x", 1]`:                                 `"command[1]" must be a string`,
		`"command": ["x"], "url": "https://h/mcp"`:            `has both "command" and "url"`,
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

func TestAuth(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), []byte("the key"), 0o600))
	for text, want := range map[string]mcpvisor.Auth{
		`"auth": true`:  &oauth.Config{},
		`"auth": {}`:    &oauth.Config{},
		`"auth": false`: nil,
		`"auth": null`:  nil,
		`"oauth": {"clientId": "me", "callbackPort": 8123, "scopes": "a b"}`: &oauth.Config{ClientID: "me",
			RedirectURL: "http://localhost:8123/callback", Scopes: []string{"a", "b"}},
		`"auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["a"]}`:                     &oauth.Config{ClientID: "me", ClientSecret: "hush", Scopes: []string{"a"}},
		`"auth": {"client_id": "me", "grant": "client_credentials", "private_key_file": "key.pem"}`:          &oauth.Config{ClientID: "me", Grant: oauth.GrantClientCredentials, PrivateKey: "the key"},
		`"auth": {"client_metadata_url": "https://h.example/c.json", "issuer": "https://i", "wait": "2s"}`:   &oauth.Config{ClientMetadataURL: "https://h.example/c.json", Issuer: "https://i", TokenWait: 2 * time.Second},
		`"auth": {"account": "work", "client_name": "Us", "redirect_url": "http://127.0.0.1:7777/callback"}`: &oauth.Config{Account: "work", ClientName: "Us", RedirectURL: "http://127.0.0.1:7777/callback"},
		`"auth": {"resource": "api://us", "pkce": "required"}`:                                               &oauth.Config{Resource: "api://us"},
		`"auth": {"resource": false, "pkce": "assume"}`:                                                      &oauth.Config{OmitResource: true, AssumePKCE: true},
		`"oauth": {"enabled": false, "clientId": "me"}`:                                                      nil,
	} {
		f := parse(t, dir, `{"servers": {"web": {"url": "https://mcp.example/mcp", `+text+`}}}`)
		require.Empty(t, f.Problems, text)
		require.Len(t, f.Servers, 1, text)
		require.Equal(t, want, f.Servers[0].Spec.HTTP.Auth, text)
	}
}

func TestAuth_store(t *testing.T) {
	dir := t.TempDir()
	files, err := oauth.NewFileStore(filepath.Join(dir, "tokens"))
	require.NoError(t, err)
	for text, want := range map[string]oauth.TokenStore{
		"keyring":                       oauth.NewKeyringStore(),
		"memory":                        oauth.NewMemoryStore(),
		"./tokens":                      files,
		filepath.Join(dir, "tokens"):    files,
		"${workspaceFolder}/tokens":     files,
		"${NO_SUCH_STORE:-}":            nil,
		"${NO_SUCH_STORE:-./tokens/./}": files,
	} {
		f := parse(t, dir, `{"servers": {"web": {"url": "https://mcp.example/mcp", "auth": {"store": "`+text+`"}}}}`)
		require.Empty(t, f.Problems, text)
		require.Equal(t, want, f.Servers[0].Spec.HTTP.Auth.(*oauth.Config).Store, text)
	}
}

// Relative paths begin at the workspace. The files are not read here: platforms renew them.
func TestAuth_token_files(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	for text, want := range map[string]oauth.Config{
		`{"assertion_file": "token"}`: {Grant: oauth.GrantJWTBearer, AssertionFile: path},
		`{"client_id": "me", "enterprise": {"token_endpoint": "https://idp/token", "client_id": "us", "client_secret": "${SECRET}", "id_token_file": "${workspaceFolder}/token"}}`: {
			Grant: oauth.GrantJWTBearer, ClientID: "me", Enterprise: &oauth.Enterprise{TokenEndpoint: "https://idp/token", ClientID: "us", ClientSecret: "hush", IDTokenFile: path}},
	} {
		f := parse(t, dir, `{"servers": {"web": {"url": "https://mcp.example/mcp", "auth": `+text+`}}}`)
		require.Empty(t, f.Problems, text)
		require.Equal(t, &want, f.Servers[0].Spec.HTTP.Auth)
	}
}

func TestAuth_rejected(t *testing.T) {
	for text, says := range map[string]string{
		`"url": "https://h/mcp", "auth": "yes"`:                                                    `"auth" must be an object`,
		`"url": "https://h/mcp", "auth": {"grant": "password"}`:                                    "unknown",
		`"url": "https://h/mcp", "auth": {"grant": "client_credentials"}`:                          `needs "client_id" in "auth"`,
		`"url": "https://h/mcp", "auth": {"clientid": "me"}`:                                       "unknown key",
		`"url": "https://h/mcp", "auth": {"client_secret": "s3cret-value"}`:                        `no "client_id" in "auth"`,
		`"url": "https://h/mcp", "auth": true, "headers": {"authorization": "Bearer x"}`:           "Authorization header",
		`"url": "https://u:p@h/mcp", "auth": true`:                                                 "user in the URL",
		`"url": "https://h/mcp", "auth": {"client_id": "me", "private_key_file": "none.pem"}`:      "cannot be read",
		`"url": "https://h/mcp", "auth": {"resource": true}`:                                       `"auth.resource" must be a URL or false`,
		`"url": "https://h/mcp", "auth": {"resource": "us"}`:                                       `the resource must be an absolute URL`,
		`"url": "https://h/mcp", "auth": {"pkce": "off"}`:                                          `use "required" or "assume"`,
		`"url": "https://h/mcp", "auth": {"store": "keychain"}`:                                    "not a place for tokens",
		`"url": "https://h/mcp", "auth": {"client_id": "x", "enterprise": {"client_id": "y"}}`:     `needs "token_endpoint" in "enterprise" in "auth"`,
		`"url": "https://h/mcp", "auth": {"grant": "urn:ietf:params:oauth:grant-type:jwt-bearer"}`: `needs one of "assertion_file"`,
		`"url": "https://h/mcp", "auth": {"enterprise": {}, "assertion_file": "x"}`:                "needs one of",
		`"command": "x", "auth": true`:                                                             "for an endpoint",
	} {
		f := parse(t, t.TempDir(), `{"servers": {"web": {`+text+`}}}`)
		require.NotEmpty(t, f.Problems, text)
		require.Contains(t, f.Problems[0].String(), says, text)
		require.NotContains(t, f.Problems[0].String(), "s3cret")
	}
}

func TestHeadersCommand(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"CLAUDE_CODE_MCP_SERVER_NAME": "web", "CLAUDE_CODE_MCP_SERVER_URL": "https://h/mcp"}
	for text, want := range map[string][]string{
		`"headersHelper": "./print-headers ${env:SECRET}"`:    append(slices.Clone(shell), "./print-headers hush"),
		`"headers_command": ["./print-headers", "${SECRET}"]`: {"./print-headers", "hush"},
	} {
		f := parse(t, dir, `{"servers": {"web": {"url": "https://h/mcp", `+text+`}}}`)
		require.Empty(t, f.Problems, text)
		require.Equal(t, &headerauth.Source{Command: want, Dir: dir, Env: env}, f.Servers[0].Spec.HTTP.Auth)
	}
	for text, says := range map[string]string{
		`"url": "https://h/mcp", "headers_command": ""`:                                            "because it is empty",
		`"url": "https://h/mcp", "headers_command": []`:                                            "because it is empty",
		`"url": "https://h/mcp", "headers_command": "x", "auth": true`:                             `both "auth" and "headers_command"`,
		`"url": "https://h/mcp", "headers_command": "x", "headers": {"Authorization": "Bearer x"}`: "Authorization header",
		`"command": "x", "headers_command": "x"`:                                                   `"headers_command" is ignored`,
	} {
		f := parse(t, dir, `{"servers": {"web": {`+text+`}}}`)
		require.NotEmpty(t, f.Problems, text)
		require.Contains(t, f.Problems[0].String(), says, text)
	}
}

func TestConnection(t *testing.T) {
	dir := t.TempDir()
	pin := "sha256/" + strings.Repeat("A", 43) + "="
	for text, want := range map[string]mcpvisor.HTTP{
		`"url": "unix:///run/mcp.sock"`:                          {URL: "http://localhost/mcp", Socket: "/run/mcp.sock"},
		`"url": "http://localhost/sse", "socket": "mcp.sock"`:    {URL: "http://localhost/sse", Socket: filepath.Join(dir, "mcp.sock")},
		`"url": "https://h/mcp", "tls": {"ca": "${SECRET}.pem"}`: {URL: "https://h/mcp", TLS: &mcpvisor.TLS{CAFile: filepath.Join(dir, "hush.pem")}},
		`"url": "https://h/mcp", "tls": {"cert": "c", "key": "/k", "pin": "` + pin + `", "server_name": "n"}`: {URL: "https://h/mcp",
			TLS: &mcpvisor.TLS{CertFile: filepath.Join(dir, "c"), KeyFile: "/k", Pins: []string{pin}, ServerName: "n"}},
	} {
		f := parse(t, dir, `{"servers": {"web": {`+text+`}}}`)
		require.Empty(t, f.Problems, text)
		require.Equal(t, &want, f.Servers[0].Spec.HTTP, text)
	}
	for text, says := range map[string]string{
		`"url": "unix://"`:                             "names no socket",
		`"url": "unix:///a%20b"`:                       "names no socket",
		`"url": "unix:mcp.sock"`:                       "names no socket",
		`"url": "unix:///a.sock", "socket": "/b.sock"`: "both name a socket",
		`"url": "https://h/mcp", "tls": {"cert": "c"}`: `"cert" in "tls" and "key" in "tls" belong together`,
		`"url": "http://h/mcp", "tls": {"ca": "c"}`:    `"tls" has no effect`,
		`"url": "https://h/mcp", "tls": {"pin": "x"}`:  `in "pin" in "tls": "x" is no SHA-256 digest`,
		`"url": "https://h/mcp", "tls": "x"`:           `"tls" must be an object`,
		`"command": "x", "tls": {"ca": "c"}`:           "for a server over HTTP",
	} {
		f := parse(t, dir, `{"servers": {"web": {`+text+`}}}`)
		require.NotEmpty(t, f.Problems, text)
		require.Contains(t, f.Problems[0].String(), says, text)
	}
}

func parse(t *testing.T, dir, text string) *File {
	t.Helper()
	t.Setenv("SECRET", "hush")
	f := mustParse(t, []byte(text), "mcp.json", WithWorkspace(dir))
	checkSchema(t, []byte(text), f)
	return f
}

// Hosts have many keys for tools that are offered or hidden.
func TestTools(t *testing.T) {
	const server = `"command": "x", `
	for members, want := range map[string]mcpvisor.ToolFilter{
		`"disabledTools": ["write_file", "rm*"]`:                                  {Deny: []string{"write_file", "rm*"}},
		`"excludeTools": ["write_file"]`:                                          {Deny: []string{"write_file"}},
		`"enabledTools": ["read_*"]`:                                              {Allow: []string{"read_*"}},
		`"includeTools": ["read_*"]`:                                              {Allow: []string{"read_*"}},
		`"tools": ["*"]`:                                                          {Allow: []string{"*"}},
		`"tools": ["read", "list"], "disabledTools": ["list"]`:                    {Allow: []string{"read", "list"}, Deny: []string{"list"}},
		`"tools": {"allow": ["read"], "deny": ["x"]}`:                             {Allow: []string{"read"}, Deny: []string{"x"}},
		`"tools": {"read": true, "rm": false}`:                                    {Deny: []string{"rm"}},
		`"tools": {"rm": {"enabled": false}, "x": {"disabled": true}, "y": 1}`:    {Deny: []string{"rm", "x"}},
		`"tools": ["read_*", "list"], "enabledTools": ["read_file", "li*", "rm"]`: {Allow: []string{"list", "read_file"}},
		`"tools": ["$${HOST}", "${HOST}"]`:                                        {Allow: []string{"${HOST}", "h"}},
		`"disabledTools": null`:                                                   {},
	} {
		f, problems := readEntry(t, server+members)
		require.Empty(t, problems, members)
		require.Equal(t, want, f.Servers[0].Spec.Tools, members)
	}
}

func TestTools_not_a_list(t *testing.T) {
	f, problems := readEntry(t, `"command": "x", "tools": true`)
	require.Contains(t, problems, `warning: server "s": "tools" is ignored, because it is neither a list nor an object; write`)
	require.True(t, f.Servers[0].Spec.Tools.IsZero())
	_, problems = readEntry(t, `"command": "x", "disabledTools": "rm"`)
	require.Contains(t, problems, `server "s": "disabledTools" must be a list of strings`, "a tool that the user has hidden must not be offered")
	_, problems = readEntry(t, `"command": "x", "disabledTools": [""]`)
	require.Contains(t, problems, "a pattern is empty")
}

// An empty list allows no tool, whatever another list allows.
func TestTools_empty_list(t *testing.T) {
	for _, members := range []string{`"tools": []`, `"enabledTools": []`, `"enabledTools": [], "tools": ["*"]`, `"tools": ["a"], "enabledTools": ["b"]`} {
		f, problems := readEntry(t, `"command": "x", `+members)
		require.False(t, f.Servers[0].Spec.Tools.Allows("a"), members)
		require.Contains(t, problems+"no tool of this server is offered", "no tool of this server is offered")
	}
}

// Keys that list tools to call without asking have no effect. A warning says so
// once for each key of a file.
func TestApproval_keys(t *testing.T) {
	f := mustParse(t, []byte(`{"mcpServers": {
		"off": {"command": "x", "autoApprove": ["z"], "disabled": true}, "none": {"command": "x", "autoApprove": []},
		"a": {"command": "x", "autoApprove": ["read"], "alwaysAllow": ["list"]},
		"b": {"command": "x", "alwaysAllow": ["read"]}
	}}`), "mcp.json")
	require.Len(t, f.Problems, 2, "once for each key")
	require.Contains(t, f.Problems[0].String(), `mcp.json:3:40: warning: server "a": "autoApprove" has no effect, in this entry`)
	require.Equal(t, `config mcp.json:3:65: warning: server "a": "alwaysAllow" has no effect, in this entry and all others, because `+
		`mcpvisor asks before a call only where "rules" say so; to hide tools, list them in "disabledTools"`, f.Problems[1].String())
	require.Len(t, f.Specs(), 3)
	require.True(t, f.Servers[1].Spec.Tools.IsZero())
}

// webSockets is an option, and what its function was given.
func webSockets() (Option, *[]WebSocket) {
	var given []WebSocket
	return WithWebSocket(func(w WebSocket) *mcpvisor.Transport {
		given = append(given, w)
		return &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return nil, errors.New("nothing is at " + w.URL) }}
	}), &given
}

func parseWebSocket(t *testing.T, members string, opts ...Option) *File {
	t.Helper()
	f := mustParse(t, []byte(`{"mcpServers": {"s": {`+members+`}}}`), "mcp.json", append(opts, WithLookup(func(name string) (string, bool) {
		return map[string]string{"TOKEN": "a-secret-token-0123456789"}[name], name == "TOKEN"
	}))...)
	return f
}

func TestType_ws(t *testing.T) {
	for _, members := range []string{`"type": "ws", `, `"type": "WebSocket", `, `"transport": "web-socket", `, ``} {
		option, given := webSockets()
		f := parseWebSocket(t, members+`"url": "wss://user:pass-word-1@h.example/mcp?key=${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}, "limits": {"max_message_bytes": 5000}, "retry": 7`, option)
		require.Empty(t, f.Problems, members)
		spec := f.Servers[0].Spec
		require.NoError(t, spec.Validate())
		require.Equal(t, []WebSocket{{URL: "wss://user:pass-word-1@h.example/mcp?key=a-secret-token-0123456789",
			Headers: map[string]string{"Authorization": "Bearer a-secret-token-0123456789"}, MaxMessageBytes: 5000}}, *given)
		require.Nil(t, spec.HTTP)
		require.Equal(t, "ws", spec.TransportKind())
		require.Equal(t, "wss://h.example/mcp", spec.Target())
		require.Contains(t, spec.Secrets, "a-secret-token-0123456789")
		require.Contains(t, spec.Secrets, "pass-word-1")
		require.Equal(t, 7, spec.Policy.MaxAttempts)
	}
	option, given := webSockets()
	require.Empty(t, parseWebSocket(t, `"type": "ws", "url": "ws://h"`, option).Problems)
	require.Equal(t, defaults.MaxMessageBytes, (*given)[0].MaxMessageBytes)
}

// Reading a file again gives equal specs, so that a reload does not start servers again.
func TestType_ws_equal_entries(t *testing.T) {
	option, given := webSockets()
	read := func(members string) mcpvisor.ServerSpec {
		return parseWebSocket(t, `"type": "ws", "url": "ws://h/mcp", `+members, option).Servers[0].Spec
	}
	first := read(`"headers": {"A": "1", "B": "2"}`)
	require.True(t, first.Equal(read(`"headers": {"B": "2", "A": "1"}`)))
	require.Len(t, *given, 1)
	require.False(t, first.Equal(read(`"headers": {"A": "1"}`)))
	require.False(t, first.Equal(read(`"limits": {"max_message_bytes": 5000}, "headers": {"A": "1", "B": "2"}`)))
}

func TestType_ws_rejected(t *testing.T) {
	option, _ := webSockets()
	for members, says := range map[string]string{
		`"type": "ws"`:                                           `has type "ws" and no "url"; give the address`,
		`"type": "ws", "command": "x"`:                           `has type "ws" and no "url"`,
		`"type": "ws", "url": "ws://h", "command": "x"`:          `has both "command" and "url"`,
		`"type": "ws", "url": "https://h/mcp"`:                   `must begin with ws:// or wss://`,
		`"type": "ws", "url": "ws:///mcp"`:                       `name a host`,
		`"type": "ws", "url": "ws://h:x"`:                        `cannot be parsed`,
		`"type": "ws", "url": "ws://h", "auth": true`:            `has "auth", which is for HTTP and not for WebSockets`,
		`"type": "ws", "url": "ws://h", "headers": {"a b": "c"}`: `cannot be reached: header "a b" is not usable`,
		`"type": "http", "url": "ws://h"`:                        `URL must begin with http:// or https://`,
		`"type": "sse", "url": "wss://h"`:                        `URL must begin with http:// or https://`,
	} {
		f := parseWebSocket(t, members, option)
		require.Empty(t, f.Servers, members)
		require.Len(t, f.Problems, 1, members)
		require.Contains(t, f.Problems[0].String(), says)
	}
	for _, opts := range [][]Option{nil, {WithWebSocket(nil)}} {
		f := parseWebSocket(t, `"type": "ws", "url": "ws://h?key=${TOKEN}"`, opts...)
		require.Empty(t, f.Servers)
		require.Contains(t, f.Problems[0].String(), "which this program does not reach")
		require.NotContains(t, f.Problems[0].String(), "a-secret-token")
	}
	f := parseWebSocket(t, `"type": "ws", "url": "ws://h"`, WithWebSocket(func(WebSocket) *mcpvisor.Transport { return nil }))
	require.Contains(t, f.Problems[0].String(), "returned no transport")
}

// Many READMEs of servers show a whole command line in "command".
func TestCommand_with_arguments(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tool", "my tool"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", dir)

	f, problems := readEntry(t, `"command": "tool  -y foo", "args": ["bar"]`)
	require.Contains(t, problems, `is read as the program "tool" with 2 arguments`)
	require.Equal(t, "tool", f.Servers[0].Spec.Stdio.Command)
	require.Equal(t, []string{"-y", "foo", "bar"}, f.Servers[0].Spec.Stdio.Args)

	f, problems = readEntry(t, `"command": "my tool"`)
	require.Empty(t, problems)
	require.Equal(t, "my tool", f.Servers[0].Spec.Stdio.Command)

	f, problems = readEntry(t, `"command": "absent -y foo"`)
	require.Contains(t, problems, `"command" has spaces, and no program of that name is installed`)
	require.Equal(t, "absent -y foo", f.Servers[0].Spec.Stdio.Command)

	f, problems = readEntry(t, `"command": "tool --name 'two words'"`)
	require.Contains(t, problems, "command line with quotes")
	require.Empty(t, f.Servers)
}

// A backslash of a Windows path that is written once is invalid JSON, or names
// another path.
func TestCommand_with_single_backslashes(t *testing.T) {
	for text, says := range map[string]string{
		`{"servers": {"s": {"command": "C:\Users\me\x.exe"}}}`: "config mcp.json:1:31: this string is not valid JSON, because a backslash in it does not begin an escape; write each backslash twice",
		`{"servers": {"s": {"command": "C:\updates\x.exe"}}}`:  "write each backslash twice",
		"{\"servers\": {\"s\": {\"command\": \"a\tb\"}}}":      "this is not valid JSON: invalid literal",
	} {
		_, err := Parse([]byte(text), "mcp.json")
		require.ErrorContains(t, err, says)
	}
	for _, text := range []string{`"command": "C:\\tools\\x", "args": ["C:\temp"]`, `"command": "D:\new\bin"`, `"command": "x", "cwd": "c:\for"`} {
		f, problems := readEntry(t, text)
		require.Contains(t, problems, "its backslashes are read as escapes", text)
		require.Empty(t, f.Servers)
	}
	_, problems := readEntry(t, `"command": "C:\\temp\\x", "args": ["a\tb"]`)
	require.Empty(t, problems)
}

// A relative cwd begins at the directory of the file.
func TestCwd_relative(t *testing.T) {
	dir := t.TempDir()
	f := mustParse(t, []byte(`{"servers": {"s": {"command": "x", "cwd": "sub"}, "u": {"command": "x", "cwd": "${userHome}"}}}`), filepath.Join(dir, "mcp.json"))
	require.Equal(t, filepath.Join(dir, "sub"), f.Servers[0].Spec.Stdio.Dir)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	require.Equal(t, home, f.Servers[1].Spec.Stdio.Dir)
}

func parseGateway(t *testing.T, gateway string) *File {
	t.Helper()
	text := `{"servers": {"files": {"command": "x"}, "git": {"command": "y", "on_down": "withdraw", "share": "client"}}, "gateway": ` + gateway + `}`
	f := mustParse(t, []byte(text), "mcp.json", env(map[string]string{"T": "read_*"}))
	checkSchema(t, []byte(text), f)
	return f
}

func TestGateway(t *testing.T) {
	f := parseGateway(t, `{
		"on_down": "30s", "result_max": 50000, "max_copies": 9, "max_copies_per_principal": 3, "max_held_mib": 4096, "max_held_mib_per_principal": 16, "names": {"prefix": "conflict", "host_prefix": ""},
		"origins": ["http://localhost:6274", "http://127.0.0.1:*"], "hosts": ["host.docker.internal"], "extensions": {"a.example/b": {"x": 1 /* a comment */,}},
		"profiles": {
			"review": {"servers": ["git", "f*"], "tools": {"allow": ["${T}"], "deny": ["files/*"]}, "prompts": [], "resources": null,
				"annotations": {"readOnlyHint": true, "destructiveHint": false}},
			"all": {"tools": {"allow": [], "deny": ["x"]}},
		}}`)
	require.Empty(t, f.Problems)
	yes, no, grace, withdraw := true, false, settings.OnDown(30*time.Second), settings.Withdraw
	require.Equal(t, &Gateway{Extensions: map[string]json.RawMessage{"a.example/b": json.RawMessage(`{"x":1}`)}, Settings: settings.Settings{OnDown: &grace, Origins: []string{"http://localhost:6274", "http://127.0.0.1:*"}, Hosts: []string{"host.docker.internal"}, Names: &settings.Names{Prefix: settings.PrefixOnConflict}, MaxResultBytes: 50000, MaxCopies: 9, MaxCopiesOfPrincipal: 3, MaxHeldByAll: 4 << 30, MaxHeldByPrincipal: 16 << 20, Profiles: map[string]settings.Profile{
		"review": {Servers: mcpvisor.ToolFilter{Allow: []string{"git", "f*"}}, Tools: mcpvisor.ToolFilter{Allow: []string{"read_*"}, Deny: []string{"files/*"}},
			Prompts: mcpvisor.ToolFilter{Allow: []string{}, Deny: []string{"*"}}, Annotations: settings.Annotations{ReadOnly: &yes, Destructive: &no}},
		"all": {Tools: mcpvisor.ToolFilter{Allow: []string{}, Deny: []string{"*", "x"}}},
	}}}, f.Gateway)
	require.Nil(t, f.Servers[0].OnDown)
	require.Equal(t, &withdraw, f.Servers[1].OnDown)
	require.Equal(t, []settings.Share{"", settings.ShareClient}, []settings.Share{f.Servers[0].Share, f.Servers[1].Share})
	require.Equal(t, settings.ShareClient, parseEntry(t, t.TempDir(), map[string]any{"command": "x", "share": "client"}).Share)
	require.Nil(t, parseEntry(t, t.TempDir(), map[string]any{"command": "x"}).OnDown)

	f = mustParse(t, []byte(`{"servers": {"x": {"command": "x", "share": "all"}}}`), "mcp.json")
	require.Contains(t, fmt.Sprint(f.Problems), `"share" is "all"; use "shared" or "client"`)
	f = mustParse(t, []byte(`{"servers": {"x": {"command": "x", "share": "client", "exclusive": true}}}`), "mcp.json")
	require.Empty(t, f.Servers)
	require.Len(t, f.Problems, 1)
	require.Contains(t, fmt.Sprint(f.Problems), `"share": "client" starts a process for each client, and "exclusive" allows one`)
	require.Len(t, f.Unusable, 1)
	f = mustParse(t, []byte(`{"servers": {}}`), "mcp.json")
	require.Nil(t, f.Gateway)
}

// What is wrong with "gateway" is an error with its place and what to write, and nothing of it is
// used: a profile that is read in part would offer more than it says.
func TestGateway_problems(t *testing.T) {
	for gateway, says := range map[string]string{
		`7`:                                                           `"gateway" must be an object`,
		`{"profile": {}}`:                                             `unknown key "gateway.profile"; did you mean "profiles"?`,
		`{"on_down": "forget"}`:                                       `"gateway.on_down" must be "keep", "withdraw" or a duration; write "keep", "withdraw" or "30s"`,
		`{"on_down": -1}`:                                             `"gateway.on_down" must be "keep"`,
		`{"names": {"prefix": "sometimes"}}`:                          `"gateway.names.prefix" is "sometimes"; use "always", "conflict" or "never"`,
		`{"max_held_mib": "64"}`:                                      `"gateway.max_held_mib" must be a whole number from 0 to 2147483647`,
		`{"max_held_mib_per_principal": -1}`:                          `"gateway.max_held_mib_per_principal" must be a whole number from 0`,
		`{"origins": ["http://a", "*"]}`:                              `in "gateway.origins": "*" would let every web page use the servers; name the sites`,
		`{"origins": "http://a"}`:                                     `"gateway.origins" must be a list of strings`,
		`{"hosts": ["*.a.example"]}`:                                  `in "gateway.hosts": "*.a.example" would let web pages reach the servers by names that lead here`,
		`{"extensions": []}`:                                          `"gateway.extensions" must be an object with the settings of each extension`,
		`{"extensions": {"a/b": true}}`:                               `"gateway.extensions" must be an object with the settings of each extension`,
		`{"extensions": {"a/b": null}}`:                               `"gateway.extensions" must be an object with the settings of each extension`,
		`{"extensions": {"ui": {}}}`:                                  `"gateway.extensions" must be an object with the settings of each extension`,
		`{"result_max": -1}`:                                          `"gateway.result_max" must be a whole number`,
		`{"profiles": []}`:                                            `"gateway.profiles" must be an object; write {"review": {"tools": ["read_*"]}}`,
		`{"profiles": {"p": ["x"]}}`:                                  `"gateway.profiles.p" must be an object; write {"tools": ["read_*"]}`,
		`{"profiles": {"a/b": {}}}`:                                   `the name of "gateway.profiles.a/b" cannot be part of a path; use letters, digits, - and _`,
		`{"profiles": {"p": {"tool": ["x"]}}}`:                        `unknown key "gateway.profiles.p.tool"; did you mean "tools"?`,
		`{"profiles": {"p": {"tools": {"alow": ["x"]}}}}`:             `unknown key "gateway.profiles.p.tools.alow"; did you mean "allow"?`,
		`{"profiles": {"p": {"tools": "x"}}}`:                         `"gateway.profiles.p.tools" must be a list of strings; write ["…", "…"]`,
		`{"profiles": {"p": {"tools": [7]}}}`:                         `"gateway.profiles.p.tools[0]" must be a string`,
		`{"profiles": {"p": {"tools": [""]}}}`:                        `the pattern "gateway.profiles.p.tools[0]" is empty and matches nothing; remove it, or write "*" for all`,
		`{"profiles": {"p": {"tools": {"deny": ["x", "[a-z]"]}}}}`:    `the pattern "[a-z]" of "gateway.profiles.p.tools.deny[1]" has a '[', which would stand for itself; only * and ? are special`,
		`{"profiles": {"p": {"servers": ["git/log"]}}}`:               `the pattern "git/log" of "gateway.profiles.p.servers[0]" has a slash, and names of servers have none; put it into "tools", as in "files/read_*"`,
		`{"profiles": {"p": {"annotations": {"readOnly": true}}}}`:    `unknown key "gateway.profiles.p.annotations.readOnly"; use one of readOnlyHint, destructiveHint, idempotentHint, openWorldHint`,
		`{"profiles": {"p": {"annotations": {"readOnlyHint": "y"}}}}`: `"gateway.profiles.p.annotations.readOnlyHint" must be true or false`,
		`{"profiles": {"p": {"tools": ["${NOT_SET}"]}}}`:              `NOT_SET`,
	} {
		f := parseGateway(t, gateway)
		require.Len(t, f.Problems, 1, "%s: %v", gateway, f.Problems)
		require.Equal(t, SeverityError, f.Problems[0].Severity)
		require.Contains(t, f.Problems[0].String(), "config mcp.json:1:", gateway)
		require.Contains(t, f.Problems[0].Message, says, gateway)
		require.True(t, f.Gateway.Broken)
		require.Len(t, f.Servers, 2, "the servers are used")
	}
	f := mustParse(t, []byte(`{"servers": {}, "gateway": {}, "gateway": {}}`), "mcp.json")
	require.Contains(t, fmt.Sprint(f.Problems), `"gateway" is there twice`)
	require.True(t, f.Gateway.Broken)
}

// A server that no file has is a warning: it may come later.
func TestGateway_unknown_server(t *testing.T) {
	f := parseGateway(t, `{"profiles": {"p": {"servers": ["gti", "x*"]}}}`)
	require.Len(t, f.Problems, 1)
	require.Equal(t, `config mcp.json:1:152: warning: no server is called "gti", which "gateway.profiles.p.servers[0]" names; did you mean "git"?`, f.Problems[0].String())
	require.False(t, f.Gateway.Broken)
}

// Names that collide without those of their servers are an error, as far as the entries name their
// tools.
func TestGateway_collision(t *testing.T) {
	for _, row := range []struct{ prefix, a, b, says string }{
		{"never", `["read", "x"]`, `["read"]`, `the servers "a" and "b" both offer the tool "read" (mcp.json:2), which without their names is one; hide it in one of them, or write "conflict"`},
		{"conflict", `["read"]`, `["read"]`, ""}, {"always", `["read"]`, `["read"]`, ""},
		{"never", `["read"]`, `["write"]`, ""}, {"never", `["read*"]`, `["read"]`, ""}, {"never", `["read"]`, `{"allow": ["read"], "deny": ["r*"]}`, ""},
	} {
		text := `{"gateway": {"names": {"prefix": "` + row.prefix + `"}}, "servers": {"a": {"command": "x", "tools": ` + row.a + `},
"b": {"command": "x", "tools": ` + row.b + `}, "off": {"disabled": true, "command": "x", "tools": ["x"]}}}`
		f := mustParse(t, []byte(text), "mcp.json")
		require.Equal(t, row.says != "", f.Gateway.Broken, text)
		if row.says != "" {
			require.Len(t, f.Problems, 1)
			require.Equal(t, "config mcp.json:1:34: "+row.says, f.Problems[0].String())
		}
	}
}

// Of several files the last one with the key counts, as a whole; the others are not read.
func TestLoadFiles_gateway(t *testing.T) {
	dir := writeFiles(t, map[string]string{"0": `{"servers": {}, "gateway": {"nonsense": 1}}`, "2": `{"servers": {"later": {"command": "x"}}}`,
		"1": `{"servers": {}, "gateway": {"result_max": 1, "profiles": {"p": {"servers": ["later"]}}}}`})
	f := mustLoadFiles(t, []string{filepath.Join(dir, "0"), filepath.Join(dir, "1"), filepath.Join(dir, "2")})
	require.Empty(t, f.Problems)
	require.Equal(t, 1, f.Gateway.MaxResultBytes)
}

// Each row of the tables of "gateway" has an example that is read, and that the schema accepts.
func TestGateway_keys(t *testing.T) {
	for _, table := range []struct {
		keys []configkeys.Key
		text string
	}{{flatten(nil, "", gatewayRows), `KEY`}, {flatten(nil, "", profileRows), `{"profiles": {"p": KEY}}`}} {
		for _, k := range table.keys {
			require.NotEmpty(t, k.Meaning)
			require.True(t, json.Valid([]byte(k.Example)), k.Name)
			value := k.Example
			parts := strings.Split(k.Name, ".")
			for i := len(parts) - 1; i >= 0; i-- {
				value = `{"` + parts[i] + `": ` + value + `}`
			}
			f := parseGateway(t, strings.ReplaceAll(table.text, "KEY", value))
			require.Empty(t, f.Problems, k.Name)
			require.NotEqual(t, &Gateway{}, f.Gateway, k.Name)
		}
	}
}

// In a file 0 means that no call waits; in Go it means the default.
func TestLimits_no_queue(t *testing.T) {
	f, problems := readEntry(t, `"command": "x", "limits": {"max_queued": 0}`)
	require.Empty(t, problems)
	require.Equal(t, mcpvisor.Limits{MaxQueued: -1}, f.Servers[0].Spec.Limits)
}
