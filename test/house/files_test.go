package house

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
}

func (s source) isGo() bool     { return strings.HasSuffix(s.path, ".go") }
func (s source) isTest() bool   { return strings.HasSuffix(s.path, "_test.go") }
func (s source) lines() int     { return bytes.Count(s.text, []byte("\n")) }
func (s source) folder() string { return filepath.ToSlash(filepath.Dir(s.path)) }

// sources reads the Go files and the pages of the repository.
func sources(t *testing.T) (all []source) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
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
		all = append(all, source{filepath.ToSlash(name), text})
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 50, "the repository is read")
	return all
}

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
