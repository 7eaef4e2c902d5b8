package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/config"
)

// planOf plans the import of one host's file.
func planOf(t *testing.T, id, text string) (written string, p *Plan) {
	t.Helper()
	home := t.TempDir()
	e := Environment{OS: "linux", Home: home, Dir: t.TempDir()}
	h, ok := ByID(id)
	require.True(t, ok)
	path := h.Paths(e)[0]
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	m := &machine{env: e}
	target, p := m.plan(t, filepath.Join(t.TempDir(), "mcp.json"), Keep, h.Find(e)...)
	return string(target.Bytes()), p
}

// What is likely a secret is neither written nor shown, and ordinary values stay.
func TestPlan_likely_secrets(t *testing.T) {
	written, p := planOf(t, "cursor", `{"mcpServers": {
		"a": {"command": "psql-server", "args": ["-p", "pa55wordA", "-pHunter2B", "--profile", "work", "-port", "8080", "--webhook=https://chat.example/webhooks/1/hookC", "a1B2c3D4e5F6g7H8i"],
			"env": {"WEBHOOK": "https://hooks.slack.com/services/T000/B000/hookD", "SESSION": "plainsessionE", "LICENSE": "licenseF-F", "BASIC": "dXNlcjpwYXNzd29yZA==",
				"LOGIN": "bG9naW46Z2dnZ2c=", "SESSION_TIMEOUT": "360000", "LICENSE_FILE": "/etc/license.txt", "MODEL": "claude-3-5-sonnet-20241022", "REGION": "us-east-1"}},
		"b": {"url": "https://h.example/mcp", "headers": {"X-Session": "headersessionG", "X-Region": "eu-central"}},
		"c": {"command": "npx", "args": ["-y", "-p", "@scope/server-name@1.2.3", "server-name", "--hooks", "./hooks"]}
	}}`)
	shown := ""
	for _, i := range p.Items {
		require.Equal(t, ActionAdd, i.Action)
		shown += i.Target
	}
	for _, secret := range []string{"pa55wordA", "Hunter2B", "hookC", "a1B2c3D4", "hookD", "sessionE", "licenseF", "dXNlcj", "bG9naW", "sessionG"} {
		require.NotContains(t, written, secret)
		require.NotContains(t, shown, secret)
	}
	for _, plain := range []string{`"work"`, `"8080"`, `"360000"`, "/etc/license.txt", "claude-3-5-sonnet-20241022", "us-east-1", "eu-central", "@scope/server-name@1.2.3", "./hooks", `"-p${A_`} {
		require.Contains(t, written, plain)
	}
	require.Len(t, p.Variables, 10)
}

// A text that a host does not replace is not replaced later either.
func TestPlan_literal_text(t *testing.T) {
	for id, text := range map[string]string{
		"claude-desktop": `{"mcpServers": {"a": {"command": "x", "args": ["${PATHX:-d}", "a${HOME}b", "${file:/tmp/f.txt}", "$$${X}"]}}}`,
		"zed":            `{"context_servers": {"a": {"command": "x", "args": ["${PATHX:-d}", "a${HOME}b", "${file:/tmp/f.txt}", "$$${X}"]}}}`,
		"codex":          "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"${PATHX:-d}\", \"a${HOME}b\", \"${file:/tmp/f.txt}\", \"$$${X}\"]\nenv_vars = [\"MINE\"]\n",
	} {
		written, p := planOf(t, id, text)
		require.Contains(t, item(t, p, p.Items[0].Host, "a").Notes[0], "${ is written as $${, because ")
		f, err := config.Parse([]byte(written), "mcp.json", config.WithLookup(func(string) (string, bool) { return "replaced", true }))
		require.NoError(t, err)
		s, ok := f.Find("a")
		require.True(t, ok, "%v", f.Problems)
		require.Equal(t, []string{"${PATHX:-d}", "a${HOME}b", "${file:/tmp/f.txt}", "$$${X}"}, s.Spec.Stdio.Args)
		require.Equal(t, id == "codex", s.Spec.Stdio.Env["MINE"] == "replaced")
	}
	written, p := planOf(t, "cursor", `{"mcpServers": {"a": {"command": "x", "args": ["${HOME}"]}}}`)
	require.Contains(t, written, `"${HOME}"`)
	require.Empty(t, p.Items[0].Notes)
}

// Secrets that are written out are found wherever an entry may have them, with their places.
// References are none.
func TestLiteralSecrets(t *testing.T) {
	text := `{
	"command": "npx",
	"args": ["-y", "server", "--api-key", "sk-proj-9f8e7d6c5b4a39281706"],
	"env": {
		"REGION": "eu-west-1",
		"API_TOKEN": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
		"GOOD": "${API_TOKEN}",
		"DB_PASSWORD": "${file:/run/secrets/db}",
		"HIDDEN_TOKEN": "${HIDDEN_TOKEN:-ghp_26C7e42F292c6912E7710c838347Ae178B4a}"
	},
	"headers": {"Authorization": "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc123def456"},
	"url": "https://user:hunter2secret@example.com/mcp",
	"auth": {"client_id": "x", "client_secret": "very-secret-1234"}
}`
	v, err := hujson.Parse([]byte(text))
	require.NoError(t, err)
	places := map[string]int{}
	for _, one := range LiteralSecrets("docs", &v) {
		places[one.Place] = 1 + strings.Count(text[:one.Offset], "\n")
		require.Regexp(t, `^[A-Z_][A-Z0-9_]*$`, one.Variable)
	}
	require.Equal(t, map[string]int{"args[3]": 3, "env.API_TOKEN": 6, "env.HIDDEN_TOKEN": 9, "headers.Authorization": 11, "url": 12, "auth.client_secret": 13}, places)
}

// protectOne protects an entry of a server called "s".
func protectOne(t *testing.T, entry string) (string, *variables) {
	t.Helper()
	read, _, err := readMember("mcpServers")([]byte(`{"mcpServers": {"s": `+entry+`}}`), Environment{})
	require.NoError(t, err)
	v := &variables{lookup: func(string) (string, bool) { return "", false }}
	text, err := json.Marshal(v.protect("s", "Host file", read[0].entry))
	require.NoError(t, err)
	return string(text), v
}

// What is a secret becomes a variable wherever it is; everything else stays readable.
func TestProtect(t *testing.T) {
	for entry, want := range map[string]string{
		`{"env": {"API_TOKEN": "pw1", "PASSWORD": "secret-1", "LEVEL": "debug", "AUTH": "true", "EMPTY_KEY": ""}}`:       `{"env":{"API_TOKEN":"${API_TOKEN}","PASSWORD":"${PASSWORD}","LEVEL":"debug","AUTH":"true","EMPTY_KEY":""}}`,
		`{"env": {"DB_PIN": 1234, "PORT": 8080, "MAX_TOKENS": 4096, "ok": "${OTHER}"}}`:                                  `{"env":{"DB_PIN":"${DB_PIN}","PORT":8080,"MAX_TOKENS":4096,"ok":"${OTHER}"}}`,
		`{"env": {"URL": "postgres://me:pa55word@h/db"}}`:                                                                `{"env":{"URL":"${URL}"}}`,
		`{"env": {"KEY_FILE": "/etc/key", "TOKEN": "${env:X}", "AUTH_HEADER": "Bearer ${X}"}}`:                           `{"env":{"KEY_FILE":"/etc/key","TOKEN":"${env:X}","AUTH_HEADER":"Bearer ${X}"}}`,
		`{"env": {"my-key": "abcdefgh"}}`:                                                                                `{"env":{"my-key":"${MY_KEY}"}}`,
		`{"args": ["--password", "pw1", "--token=t1", "--level", "debug", "-p", "80"]}`:                                  `{"args":["--password","${S_PASSWORD}","--token=${S_TOKEN}","--level","debug","-p","80"]}`,
		`{"args": ["-y", "@scope/server-name", "/srv/a", "ghp_0123456789abcdefghijABCDEFGHIJ012345"]}`:                   `{"args":["-y","@scope/server-name","/srv/a","${S_SECRET}"]}`,
		`{"url": "https://u:pa55word@h.example/mcp", "headers": {"X-Api-Key": "k1", "Accept": "x/y", "X-Region": "eu"}}`: `{"url":"https://${S_URL_SECRET}@h.example/mcp","headers":{"X-Api-Key":"${S_X_API_KEY}","Accept":"x/y","X-Region":"eu"}}`,
		`{"headers": {"Authorization": "Basic dXNlcjpwYXNz"}}`:                                                           `{"headers":{"Authorization":"Basic ${S_TOKEN}"}}`,
		`{"auth": {"clientSecret": "c1", "enterprise": {"client_secret": "c2"}, "client_id": "me"}}`:                     `{"auth":{"clientSecret":"${S_CLIENT_SECRET}","enterprise":{"client_secret":"${S_S_CLIENT_SECRET}"},"client_id":"me"}}`,
	} {
		got, _ := protectOne(t, entry)
		require.Equal(t, want, got, entry)
	}
}

// One name never stands for two values; one value has one name where it is named alike.
func TestProtect_names(t *testing.T) {
	v := &variables{lookup: func(name string) (string, bool) { return "other", name == "TOKEN" }}
	env := func(value string) object { return object{{Key: "env", Value: object{{Key: "TOKEN", Value: value}}}} }
	names := func(server, value string) string {
		inner, _ := v.protect(server, "Host", env(value)).Get("env").(configfile.Object)
		name, _ := inner.Get("TOKEN").(string)
		return name
	}
	require.Equal(t, "${TOKEN}", names("a", "value-one"))
	require.Equal(t, "${B_TOKEN}", names("b", "value-two"))
	require.Equal(t, "${TOKEN}", names("c", "value-one"))
	require.Equal(t, "${B_TOKEN_2}", names("b", "value-three"))
	require.Equal(t, "${B_TOKEN_3}", names("b", "value-four"))
	require.Equal(t, "${B_TOKEN_2}", names("b", "value-three"))
	require.Equal(t, []string{"env.TOKEN of a (Host)", "env.TOKEN of c (Host)"}, v.find("TOKEN").For)
	require.True(t, v.find("TOKEN").Differs)
	text, err := json.Marshal(v.all)
	require.NoError(t, err)
	require.NotContains(t, string(text), "value-", "the values are shown nowhere")
}
