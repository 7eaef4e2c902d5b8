package house

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the import path of the repository, with the slash behind it.
const module = "github.com/mcpvisor/mcpvisor/"

// root is where the repository is, seen from here.
const root = "../.."

// platforms are those on which the rules are checked: build tags hide files.
var platforms = []string{"linux", "windows", "darwin"}

// pkg is one package as `go list -deps -json` tells it.
type pkg struct {
	ImportPath   string
	Dir          string
	Export       string
	Standard     bool
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
}

// folder is the package's place in this module, or false for a foreign one.
func (p *pkg) folder() (string, bool) { return folderOf(p.ImportPath) }

// folderOf is the folder of an import path of this module; "." is the root package.
func folderOf(path string) (string, bool) {
	if path+"/" == module {
		return ".", true
	}
	return strings.CutPrefix(path, module)
}

// graph is every package of the module and everything that they need, by
// import path. It is read once for each platform and shared: do not change it.
func graph(t *testing.T, platform string) map[string]*pkg {
	t.Helper()
	read, _ := graphs.LoadOrStore(platform, sync.OnceValues(func() (map[string]*pkg, error) {
		cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,Deps,TestImports,XTestImports", "./...")
		cmd.Env = append(os.Environ(), "GOOS="+platform, "CGO_ENABLED=0")
		return list(cmd)
	}))
	packages, err := read.(func() (map[string]*pkg, error))()
	require.NoError(t, err)
	return packages
}

var graphs sync.Map

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
