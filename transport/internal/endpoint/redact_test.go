package endpoint

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestSecrets_inJSON(t *testing.T) {
	spec := testSpec("http://host.example/")
	spec.HTTP.Headers = map[string]string{"X-Pin": "12345678", "X-Odd": `":[1,2]`, "Authorization": "Basic " + basicToken("login-name", "pass-word")}
	e, err := New(spec.WithDefaults())
	require.NoError(t, err)
	for raw, want := range map[string]string{
		`{"pin":"12345678"}`:             `{"pin":"***"}`,
		`{"pin":[null,"a12345678b"]}`:    `{"pin":[null,"a***b"]}`,
		`{"pin":123456789}`:              `{"pin":"***"}`,
		`{"pin":[1,2]}`:                  `"***"`,
		`"login-name:pass-word"`:         `"***"`,
		`"pass-word, \u0070ass-word"`:    `"***, ***"`,
		`{"\u0031\u0032345678": "x" }`:   `{"***": "x" }`,
		`{"harmless": ["\u0031", 1.0 ]}`: `{"harmless": ["\u0031", 1.0 ]}`,
	} {
		require.Equal(t, want, string(e.CleanJSON(json.RawMessage(raw))), raw)
	}
	for _, sent := range []bool{true, false} {
		httpErr := e.connectError(errors.New("proxy want: bad pin 12345678"), sent)
		require.NotContains(t, describe(httpErr), "12345678")
		require.Contains(t, describe(httpErr), "bad pin ***")
	}
	harmless := errors.New("harmless")
	require.Same(t, harmless, e.CleanError(harmless))
	require.NoError(t, e.CleanError(nil))
}

// A secret is redacted in every encoding in which it is sent or may be repeated.
func TestSecrets_allForms(t *testing.T) {
	spec := testSpec("http://us%20er%2F1:pass%20w%2Ford@host.example/mcp?key=qu%20e%2Fry&b=other+1")
	spec.HTTP.Headers = map[string]string{"X-Key": "header value", "Authorization": "Basic " + basicToken("login 1", "pass 2")}
	e, err := New(spec.WithDefaults())
	require.NoError(t, err)
	for _, secret := range []string{
		"us er/1", "us%20er%2F1", "pass w/ord", "pass%20w%2Ford", "pass+w%2Ford", "us%20er%2F1:pass%20w%2Ford", basicToken("us er/1", "pass w/ord"),
		"key=qu%20e%2Fry&b=other+1", "qu e/ry", "qu+e%2Fry", "other 1", "other+1",
		"header value", "Basic " + basicToken("login 1", "pass 2"), basicToken("login 1", "pass 2"), "login 1:pass 2", "pass 2",
	} {
		require.NotContains(t, e.CleanText("refused: "+secret+"!"), secret)
		require.NotContains(t, string(e.CleanJSON([]byte(`{"message":"refused: `+secret+`!"}`))), secret)
	}
}

func TestRedact_secretsOfSpec(t *testing.T) {
	const secret = "correct horse"
	e, err := New(mcpvisor.ServerSpec{HTTP: &mcpvisor.HTTP{URL: "http://host/mcp"}, Secrets: []string{secret}})
	require.NoError(t, err)
	require.Equal(t, "no ***", e.Redact("no "+secret))
}
