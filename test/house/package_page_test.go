package house

import (
	"go/ast"
	"go/doc/comment"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPackagePages: complete programs in package comments compile.
func TestPackagePages(t *testing.T) {
	t.Parallel()
	var programs []snippet
	for _, s := range sources(t) {
		if filepath.Base(s.path) != "doc.go" {
			continue
		}
		file := s.parse(t)
		for _, text := range programsIn(file) {
			programs = append(programs, parseSnippet(s.path, text))
		}
	}
	require.NotEmpty(t, programs, "the page of the root package has a program")
	compile := compiler(t, programs)
	for _, p := range programs {
		require.NoError(t, compile(p), p.place)
	}
}

// programsIn returns the complete programs of a package comment.
func programsIn(file *ast.File) (programs []string) {
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		if code, ok := block.(*comment.Code); ok && strings.HasPrefix(code.Text, "package main\n") {
			programs = append(programs, code.Text)
		}
	}
	return programs
}
