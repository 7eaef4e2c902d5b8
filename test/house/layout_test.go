package house

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A package beyond these sizes needs a reason in its doc comment: "This package is
// large because …".
const (
	packageFiles = 30
	packageLines = 3000
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
		file := s.parse(t)
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
