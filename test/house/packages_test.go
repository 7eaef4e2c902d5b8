package house

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the import path of the repository with a trailing slash.
const module = "github.com/mcpvisor/mcpvisor/"

// root is the path of the repository from this folder.
const root = "../.."

// patterns are the packages that the rules are checked for: those of the root's module, and
// those of the modules that are released beside it. The workspace (go.work) finds them.
var patterns = []string{"./...", "./telemetry/...", "./journal/...", "./fleet/...", "./cmd/mcpvisor/..."}

// platforms are those for which the rules are checked, because build tags hide files.
var platforms = []string{"linux", "windows", "darwin"}

// pkg is one package in the output of `go list -deps -json`.
type pkg struct {
	ImportPath   string
	Dir          string
	Export       string
	Standard     bool
	Module       *struct{ Path string }
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
}

// folder returns the folder of the package; ok is false for a package of another
// repository.
func (p *pkg) folder() (string, bool) { return folderOf(p.ImportPath) }

// folderOf returns the folder of an import path of this repository; "." is the root
// package.
func folderOf(path string) (string, bool) {
	if path+"/" == module {
		return ".", true
	}
	return strings.CutPrefix(path, module)
}

// graph returns every package of [patterns] and all their dependencies, by import path.
// It is computed once for each platform and shared, so do not change it.
func graph(t *testing.T, platform string) map[string]*pkg {
	t.Helper()
	read, _ := graphs.LoadOrStore(platform, sync.OnceValues(func() (map[string]*pkg, error) {
		args := append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module,Imports,Deps,TestImports,XTestImports"}, patterns...)
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOOS="+platform, "CGO_ENABLED=0")
		return list(cmd)
	}))
	packages, err := read.(func() (map[string]*pkg, error))()
	require.NoError(t, err)
	return packages
}

var graphs sync.Map

// compiled returns an importer for packages and all that they import, from what the compiler wrote.
func compiled(t *testing.T, fset *token.FileSet, paths ...string) types.Importer {
	t.Helper()
	slices.Sort(paths)
	read, _ := listings.LoadOrStore(strings.Join(paths, " "), sync.OnceValues(func() (map[string]*pkg, error) {
		return list(exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Export"}, paths...)...))
	}))
	packages, err := read.(func() (map[string]*pkg, error))()
	require.NoError(t, err)
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		p := packages[path]
		if p == nil || p.Export == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(p.Export)
	})
}

var listings sync.Map

func list(cmd *exec.Cmd) (map[string]*pkg, error) {
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	packages := map[string]*pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(pkg)
		switch err := d.Decode(p); err {
		case nil:
			packages[p.ImportPath] = p
		case io.EOF:
			return packages, nil
		default:
			return nil, err
		}
	}
}
