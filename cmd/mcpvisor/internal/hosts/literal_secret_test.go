package hosts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tailscale/hujson"
)

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
