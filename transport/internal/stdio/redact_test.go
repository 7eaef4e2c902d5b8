package stdio

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestRedactor_hides_secrets: environment variables and arguments that look like secrets
// are hidden.
func TestRedactor_hides_secrets(t *testing.T) {
	const canary = "canary-0815"
	line := func(text string) string { return "server printed: " + text }
	for name, s := range map[string]mcpvisor.Stdio{
		"a name in the environment": {Env: map[string]string{"OPENAI_API_KEY": canary}},
		"a password":                {Env: map[string]string{"DB_PASSWORD": canary}},
		"a short name":              {Env: map[string]string{"GH_PAT": canary}},
		"a flag":                    {Args: []string{"--api-key", canary}},
		"a flag and a value":        {Args: []string{"--token=" + canary}},
		"a URL with a password":     {Env: map[string]string{"DATABASE_URL": "postgres://me:" + canary + "@host/db"}},
		"a URL as an argument":      {Args: []string{"postgres://me:" + canary + "@host/db"}},
		"one line of many":          {Env: map[string]string{"PRIVATE_KEY": "-----BEGIN-----\n" + canary + "\n-----END-----"}},
	} {
		v := stdioRedactor(&s)
		require.NotNil(t, v, name)
		require.NotContains(t, v.Text(line(canary)), canary, name)
		require.NotContains(t, string(v.JSON([]byte(`{"message":"bad `+canary+`","data":["`+canary+`"]}`))), canary, name)
	}
	for _, token := range []string{"sk-proj-abcdefgh12345678", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "eyJhbGciOiJIUzI1NiJ9.e30.sig",
		"0123456789abcdef0123456789abcdef", "aB3dE6gH9jK2mN5pQ8sT1vW4"} {
		v := stdioRedactor(&mcpvisor.Stdio{Args: []string{token}})
		require.NotNil(t, v, token)
		require.NotContains(t, v.Text(line(token)), token)
	}
}

// The secrets in inherited variables are those at the time of the call.
func TestRedactor_inherited_variables(t *testing.T) {
	for _, canary := range []string{"canary-first", "canary-second", "canary-first"} {
		t.Setenv("HOST_TOKEN", canary)
		v := stdioRedactor(&mcpvisor.Stdio{InheritEnv: true, Env: map[string]string{"OWN_TOKEN": "canary-own"}})
		require.Equal(t, secret.Mask+" "+secret.Mask, v.Text(canary+" canary-own"))
	}
}

// TestRedactor_of_the_dialer: the dialer hides what its server was given.
func TestRedactor_of_the_dialer(t *testing.T) {
	spec := mcpvisor.ServerSpec{Stdio: &mcpvisor.Stdio{Command: "server", Env: map[string]string{"API_KEY": transporttest.Secret}}}
	d := newDialer(spec, transport.Options{})
	require.Equal(t, "***", d.redactor.Text(transporttest.Secret))
}

// TestRedactor_secrets_of_the_specification: what the host declares as a secret is
// hidden on every transport, though neither its name nor its form shows that it is one.
func TestRedactor_secrets_of_the_specification(t *testing.T) {
	const text = "correct horse"
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"stdio":  {Stdio: &mcpvisor.Stdio{Command: "server", Args: []string{text}}},
		"memory": {InMemory: &mcpvisor.InMemory{}},
	} {
		spec.Secrets = []string{text}
		d, err := dialPipes(spec, transport.Options{})
		require.NoError(t, err)
		require.Equal(t, "no ***", d.(*dialer).redactor.Text("no "+text), name)
	}
}

// TestRedactor_shows_other_text: text that explains a failure is shown.
func TestRedactor_shows_other_text(t *testing.T) {
	for _, text := range []string{"/srv/projects/some-long-name-2025", "@modelcontextprotocol/server-filesystem", "production",
		"postgres://host/db", "--root", "monkey", "en_US.UTF-8", "some-package-name-with-words", "C:\\Users\\me\\Documents\\Project1"} {
		require.Nil(t, stdioRedactor(&mcpvisor.Stdio{Args: []string{text}, Env: map[string]string{"SETTING": text}}), text)
	}
	require.Nil(t, stdioRedactor(&mcpvisor.Stdio{Env: map[string]string{"API_KEY": "short"}}), "a short secret cannot be distinguished from other words")
}
