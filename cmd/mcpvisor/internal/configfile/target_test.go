package configfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an entry would run or reach is shown as it is written, without its secrets.
func TestTarget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	for entry, want := range map[string]string{
		`{"command": "node", "args": ["${X}", "--key=canary"]}`:                 "node ${X}",
		`{"command": "${HOME}/bin/x", "env": {"A": "canary"}}`:                  "${HOME}/bin/x",
		`{"url": "https://u:canary@${HOST}:8080/${A}/mcp?k=canary"}`:            "https://${HOST}:8080/${A}/mcp",
		`{"url": "${input:url}"}`:                                               "${input:url}",
		`{"url": "https://${HOST:-canary.example}/${A:-canary}"}`:               "https://${HOST}/${A}",
		`{"url": "ftp://h/x", "disabled": true}`:                                "ftp://h/x",
		`{"httpUrl": "https://h/mcp", "url": "https://other/sse"}`:              "https://h/mcp",
		`{"url": "https://h:canary${PORT}/x"}`:                                  "(unreadable URL)",
		`{"url": "https://h/${A}${A}${A}${A}${A}${A}${A}${A}${A}${A}${B}${C}"}`: "https://h/${A}${A}${A}${A}${A}${A}${A}${A}${A}${A}${B}${C}",
		`{"comand": "x"}`: "", `{"command": 5}`: "", `5`: "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(`{"mcpServers": {"one": `+entry+`}}`), 0o600))
		require.Equal(t, want, Target(path, "one"), entry)
	}
	require.Empty(t, Target(path, ""))
	require.Empty(t, Target(path, "two"))
	require.Empty(t, Target(path+"x", "one"))
}
