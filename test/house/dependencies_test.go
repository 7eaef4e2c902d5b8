package house

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDependencies: docs/dependencies.md names each module that a service links with
// package facade, and which modules bring it, on Linux. So nothing is linked unseen.
func TestDependencies(t *testing.T) {
	packages := graph(t, "linux")
	facade := packages[module+"facade"]
	require.NotNil(t, facade)
	own := strings.TrimSuffix(module, "/")
	linked := map[string][]string{} // module → modules that import it
	for _, path := range append(facade.Deps, facade.ImportPath) {
		p := packages[path]
		if p == nil || p.Standard || p.Module == nil {
			continue
		}
		for _, imported := range p.Imports {
			d := packages[imported]
			if d != nil && d.Module != nil && !d.Standard && d.Module.Path != p.Module.Path && !slices.Contains(linked[d.Module.Path], p.Module.Path) {
				linked[d.Module.Path] = append(linked[d.Module.Path], p.Module.Path)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	require.NoError(t, err)
	named := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		for _, by := range quotedParts(cells[2]) {
			for _, path := range quotedParts(cells[1]) {
				named[path] = true
				if by == "facade" {
					by = own
				}
				require.Contains(t, linked[path], by, "docs/dependencies.md says that %s brings %s", by, path)
			}
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(linked)), slices.Sorted(maps.Keys(named)),
		"docs/dependencies.md must name each module that package facade links; weigh a new one for those who embed it")
}
