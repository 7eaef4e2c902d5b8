package house

import (
	"os"
	"path/filepath"
	"regexp"
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
		if folder, ours := p.folder(); ours && folder != "." && folder != "test/conformance/client" {
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

// fileName finds the name of a Go file in a text, with the folders before it. The first group
// is the name, the second what follows it directly.
var fileName = regexp.MustCompile(`(?:^|[^\w/.*-])((?:[\w-]+/)*[a-z0-9]\w*\.go)\b(\.?\w?)`)

// TestTextsNameFilesThatExist: a Go file that a page or a comment names exists. In a comment, a
// name without a folder is in the folder of the comment.
func TestTextsNameFilesThatExist(t *testing.T) {
	all := sources(t)
	exists := func(name, folder string) bool {
		return slices.ContainsFunc(all, func(s source) bool {
			return s.path == name || strings.HasSuffix(s.path, "/"+name) && (folder == "" || s.folder() == folder)
		})
	}
	ofReader := []string{"notes/main.go"} // the reader of docs/quickstart.md writes it
	checked := 0
	for _, s := range all {
		if !s.isGo() && filepath.Ext(s.path) != ".md" || s.path == "CHANGELOG.md" {
			continue
		}
		for line := range strings.Lines(string(s.text)) {
			if s.isGo() && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			for _, found := range fileName.FindAllStringSubmatch(line, -1) {
				name, folder := found[1], ""
				if len(found[2]) > 1 || slices.Contains(ofReader, name) { // pkg.go.dev
					continue
				}
				if s.isGo() && !strings.Contains(name, "/") {
					folder = s.folder()
				}
				checked++
				require.True(t, exists(name, folder), "%s names %s, which does not exist: %s", s.path, name, strings.TrimSpace(line))
			}
		}
	}
	require.Greater(t, checked, 150)
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
