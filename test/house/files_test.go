package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// longest is the largest number of lines of a file. A file holds one topic: a type with
// everything it does.
const longest = 800

// skipped are directories that do not hold sources of the repository.
var skipped = []string{".git", "bin", "dist", "node_modules", "testdata"}

// source is one text file of the repository.
type source struct {
	path string
	text []byte
	// parsed is what it is as Go.
	parsed func() (*ast.File, error)
}

func (s source) isGo() bool     { return strings.HasSuffix(s.path, ".go") }
func (s source) isTest() bool   { return strings.HasSuffix(s.path, "_test.go") }
func (s source) lines() int     { return bytes.Count(s.text, []byte("\n")) }
func (s source) folder() string { return filepath.ToSlash(filepath.Dir(s.path)) }

// parse parses a Go file with its comments. Do not change the result: the tests share it.
func (s source) parse(t *testing.T) *ast.File {
	t.Helper()
	file, err := s.parsed()
	require.NoError(t, err)
	return file
}

// sources returns the Go files and the pages of the repository, which are read once.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := readSources()
	require.NoError(t, err)
	require.Greater(t, len(all), 50, "the repository is read")
	return all
}

var readSources = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".md", ".mod", ".yml", ""}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		all = append(all, source{name, text, sync.OnceValues(func() (*ast.File, error) {
			return parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		})})
		return err
	})
	return all, err
})

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if s.isGo() {
			require.LessOrEqual(t, s.lines(), longest, "%s is too long; split it by topics", s.path)
		}
	}
}

// TestFilesAreNamedAfterWhatTheyHold rejects names that do not describe the content.
func TestFilesAreNamedAfterWhatTheyHold(t *testing.T) {
	empty := regexp.MustCompile(`(^|[/_])(utils?|common|helpers?|types|misc|shared|base)([/_.]|$)`)
	require.Regexp(t, empty, "actors/util.go")
	require.Regexp(t, empty, "helpers/x.go")
	require.NotRegexp(t, empty, "actors/utility_belt.go")
	for _, s := range sources(t) {
		if s.isGo() {
			require.NotRegexp(t, empty, s.path, "name the file after its content")
		}
	}
}
