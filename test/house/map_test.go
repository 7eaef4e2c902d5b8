package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArchitectureNamesEveryPackage: docs/architecture.md has a row for each package of
// the module, and no row for a folder that does not exist.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	_, page, found := strings.Cut(string(text), "\n## Packages\n")
	require.True(t, found)
	page, _, _ = strings.Cut(page, "\n## ")
	var named []string
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) > 2 && strings.Contains(cells[1], "`") {
			named = append(named, strings.Split(cells[1], "`")...)
		}
	}
	for _, p := range graph(t, "linux") {
		if folder, ours := p.folder(); ours && folder != "." && folder != "test/conformance/client" && folder != "test/conformance/gateway" {
			require.Contains(t, named, folder, "docs/architecture.md has no row for the package")
		}
	}
	for i, folder := range named {
		if i%2 == 1 && folder != "mcpvisor" && strings.Trim(folder, " ,()") != "" && !strings.Contains(folder, " ") {
			require.DirExists(t, filepath.Join(root, filepath.FromSlash(folder)), "docs/architecture.md has a row for a folder that does not exist")
		}
	}
}

// TestArchitectureNamesFilesThatExist: the files of the column "start reading" are in one
// of the folders of their row.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	checked := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		folders := quotedParts(strings.Replace(cells[1], "`mcpvisor`", "`.`", 1))
		for _, file := range quotedParts(cells[3]) {
			checked++
			require.True(t, slices.ContainsFunc(folders, func(folder string) bool {
				_, err := os.Stat(filepath.Join(root, filepath.FromSlash(folder), file))
				return err == nil
			}), "docs/architecture.md: %s is in none of %v", file, folders)
		}
	}
	require.Greater(t, checked, 40)
}

// quotedParts returns the texts between backquotes.
func quotedParts(text string) (parts []string) {
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			parts = append(parts, part)
		}
	}
	return parts
}
