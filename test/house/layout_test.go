package house

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A package beyond these sizes needs a reason in its doc comment: "This package is
// large because …".
const (
	packageFiles = 25
	packageLines = 2500
)

// TestPackagesAreSmall: a large package states its reason.
func TestPackagesAreSmall(t *testing.T) {
	type size struct{ files, lines int }
	sizes, reasons := map[string]size{}, map[string]string{}
	for _, s := range sources(t) {
		if !s.isGo() || s.isTest() {
			continue
		}
		z := sizes[s.folder()]
		sizes[s.folder()] = size{z.files + 1, z.lines + s.lines()}
		file, err := parser.ParseFile(token.NewFileSet(), s.path, s.text, parser.ParseComments|parser.PackageClauseOnly)
		require.NoError(t, err)
		reasons[s.folder()] += file.Doc.Text()
	}
	require.Greater(t, len(sizes), 20, "the packages are read")
	var large []string
	for folder, z := range sizes {
		if z.files <= packageFiles && z.lines <= packageLines {
			continue
		}
		text := strings.Join(strings.Fields(reasons[folder]), " ")
		if !strings.Contains(text, "This package is large because ") {
			large = append(large, fmt.Sprintf("%s has %d files and %d lines", folder, z.files, z.lines))
		}
	}
	require.Empty(t, large, "split them, or say why in their doc comments")
}

// TestNoPackageHidesInAPrefix: if five files of a folder share a prefix, they are a
// package.
func TestNoPackageHidesInAPrefix(t *testing.T) {
	prefixes := map[string][]string{}
	for _, s := range sources(t) {
		if !s.isGo() || s.isTest() || strings.HasPrefix(s.path, "bench/") {
			continue
		}
		prefix, rest, found := strings.Cut(path.Base(s.path), "_")
		switch strings.TrimSuffix(rest, ".go") {
		case "linux", "windows", "unix", "darwin", "bsd", "other":
			continue
		}
		if found {
			key := s.folder() + "/" + prefix + "_"
			prefixes[key] = append(prefixes[key], s.path)
		}
	}
	for prefix, files := range prefixes {
		require.Less(t, len(files), 5, "%s is shared by %v: make it a package", prefix, files)
		require.NotContains(t, []string{"http_", "zoo_"}, path.Base(prefix), "%v", files)
	}
}
