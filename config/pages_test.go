package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPages_configurations: each configuration in the README and in docs can be used as it stands, when the variables and
// files that it names exist.
func TestPages_configurations(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	variables, files := regexp.MustCompile(`\$\{(\w+)\}`), regexp.MustCompile(`\$\{file:~/([^}]+)\}`)
	blocks := regexp.MustCompile("(?ms)^```jsonc?\n(\\{.*?)^```$")
	loaded := map[string]int{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(block[1], `"mcpServers"`) || strings.Contains(block[1], "…") {
				continue
			}
			for _, name := range variables.FindAllStringSubmatch(block[1], -1) {
				if os.Getenv(name[1]) == "" {
					t.Setenv(name[1], "value")
				}
			}
			for _, name := range files.FindAllStringSubmatch(block[1], -1) {
				path := filepath.Join(home, filepath.FromSlash(name[1]))
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, []byte("secret-value"), 0o600))
			}
			path := filepath.Join(t.TempDir(), ".mcp.json")
			require.NoError(t, os.WriteFile(path, []byte(block[1]), 0o600))
			file, err := Load(path)
			require.NoError(t, err, "%s: %s", page, block[1])
			require.Empty(t, file.Problems, "%s: %s", page, block[1])
			loaded[filepath.Base(page)]++
		}
	}
	require.GreaterOrEqual(t, loaded["cookbook.md"], 5)
	require.NotZero(t, loaded["config.md"])
	require.NotZero(t, loaded["gateway.md"])
}
