package hosts

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
)

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
