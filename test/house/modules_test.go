package house

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goMod is the part of `go mod edit -json` that the tests read.
type goMod struct {
	Go      string
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct {
		Old, New struct{ Path string }
	}
}

// modules reads the go.mod files of the repository, by folder.
func modules(t *testing.T) map[string]goMod {
	t.Helper()
	all := map[string]goMod{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(skipped, d.Name()) {
			return filepath.SkipDir
		}
		if d.Name() != "go.mod" {
			return nil
		}
		out, err := exec.Command("go", "mod", "edit", "-json", path).Output()
		if err != nil {
			return err
		}
		var mod goMod
		folder, _ := filepath.Rel(root, filepath.Dir(path))
		err = json.Unmarshal(out, &mod)
		all[filepath.ToSlash(folder)] = mod
		return err
	}))
	require.Contains(t, all, ".")
	return all
}

// mostRequired is how many modules the root may require directly, those of tests included.
// Who embeds the library gets each of them to review.
const mostRequired = 14

// TestRootRequiresFewModules: the root's module holds the runtime. What only the program, the
// metrics or an adapter needs is required by their modules.
func TestRootRequiresFewModules(t *testing.T) {
	var direct []string
	for _, r := range modules(t)["."].Require {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	require.NotEmpty(t, direct)
	require.LessOrEqual(t, len(direct), mostRequired, "the root requires too many modules: %v", direct)
}

// TestModulesOfTheRepository: go install refuses a module with replace directives, so the
// program has none and needs go.work in a clone. The other modules find the root without
// go.work, too.
func TestModulesOfTheRepository(t *testing.T) {
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	own := strings.TrimSuffix(module, "/")
	all := modules(t)
	for folder, mod := range all {
		require.Equal(t, all["."].Go, mod.Go, "%s/go.mod has another version of Go", folder)
		if folder == "." || folder == "cmd/mcpvisor" {
			require.Empty(t, mod.Replace, "%s/go.mod", folder)
			require.Regexp(t, `(?m)^\t\./?`+strings.TrimPrefix(folder, ".")+`$`, string(work), "go.work has no such line")
			continue
		}
		replaced := map[string]string{}
		for _, r := range mod.Replace {
			replaced[r.Old.Path] = filepath.ToSlash(filepath.Join(folder, r.New.Path))
		}
		for _, r := range mod.Require {
			if r.Path == own || strings.HasPrefix(r.Path, module) {
				want := strings.TrimPrefix(strings.TrimPrefix(r.Path, own), "/")
				require.Equal(t, filepath.ToSlash(filepath.Clean(want)), replaced[r.Path], "%s/go.mod has no replace of %s by its folder", folder, r.Path)
			}
		}
	}
	require.Greater(t, len(all), 5)
}

// TestWorkspaceLinksWhatUsersGet: the packages of the root are built with the versions of its
// own go.mod. A module of go.work that requires a higher one would hide it from the tests.
func TestWorkspaceLinksWhatUsersGet(t *testing.T) {
	t.Parallel()
	linked := func(env string) string {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "./...")
		cmd.Dir, cmd.Env = root, append(os.Environ(), env)
		out, err := cmd.Output()
		require.NoError(t, err)
		lines := strings.Split(string(out), "\n")
		slices.Sort(lines)
		return strings.Join(slices.Compact(lines), "\n")
	}
	require.Equal(t, linked("GOWORK=off"), linked("GOWORK="), "raise the version in the root's go.mod, and run make tidy")
}

// TestReleasingNamesEachModule: docs/releasing.md says of each module by which tag it is released, or that it is not.
func TestReleasingNamesEachModule(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "releasing.md"))
	require.NoError(t, err)
	table, _, found := strings.Cut(string(page), "\n## ")
	require.True(t, found)
	for folder := range modules(t) {
		if folder != "." {
			require.Contains(t, table, "`"+folder+"`", "the table of docs/releasing.md has no row for the module")
		}
	}
}
