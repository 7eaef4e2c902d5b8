package house

import (
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everything runs the tests that take long because they read or build all modules: .ci/run vet does.
var everything = flag.Bool("everything", false, "also compile for other systems, and search for code that nothing reaches")

// TestSystems_compile: the code and its tests have no type errors on Windows and macOS. That takes a tenth of the time of go
// vet, which compiles all dependencies for each system: of packages of others only the declarations are read.
func TestSystems_compile(t *testing.T) {
	if !*everything {
		t.Skip("needs -everything")
	}
	for _, system := range []string{"windows", "darwin"} {
		t.Run(system, func(t *testing.T) {
			checked, problems := typeErrors(t, system)
			require.Empty(t, strings.Join(problems, "\n"))
			require.Greater(t, checked, 100, "packages of this repository")
		})
	}
}

// typeErrors type-checks all packages of the workspace, with their tests, for one system.
func typeErrors(t *testing.T, system string) (checked int, problems []string) {
	t.Helper()
	patterns := []string{}
	for folder := range modules(t) {
		// Adapters and the site are not in the workspace. Measuring and the browser need Linux or macOS.
		if !strings.HasPrefix(folder, "adapters/") && folder != "docs/site" && folder != "bench" && folder != "test/browser" {
			patterns = append(patterns, "./"+folder+"/...")
		}
	}
	cmd := exec.Command("go", append([]string{"list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Error"}, patterns...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.Output()
	require.NoError(t, err)
	set := token.NewFileSet()
	packages := map[string]*types.Package{"unsafe": types.Unsafe}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Dir        string
			GoFiles    []string
			ImportMap  map[string]string
			Error      *struct{ Err string }
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return checked, problems
		}
		require.NoError(t, err)
		name, _, _ := strings.Cut(p.ImportPath, " ") // a variant for a test has " [name.test]"
		if p.ImportPath == "unsafe" || strings.HasSuffix(name, ".test") {
			continue
		}
		ours := strings.HasPrefix(name, strings.TrimSuffix(module, "/"))
		if p.Error != nil && ours {
			problems = append(problems, p.ImportPath+": "+p.Error.Err)
		}
		var files []*ast.File
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(set, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, parsed)
		}
		config := types.Config{
			IgnoreFuncBodies: !ours,
			FakeImportC:      true,
			Sizes:            types.SizesFor("gc", runtime.GOARCH),
			Importer: importFunc(func(path string) (*types.Package, error) {
				if mapped, ok := p.ImportMap[path]; ok {
					path = mapped
				}
				if known := packages[path]; known != nil {
					return known, nil
				}
				return nil, errors.New("not listed: " + path)
			}),
			Error: func(err error) {
				if ours {
					problems = append(problems, err.Error())
				}
			},
		}
		packages[p.ImportPath], _ = config.Check(name, set, files, nil) // the errors are in problems
		if ours {
			checked++
		}
	}
}

type importFunc func(path string) (*types.Package, error)

func (i importFunc) Import(path string) (*types.Package, error) { return i(path) }
