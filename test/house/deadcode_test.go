package house

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notRoots are the packages whose exported names are no reason to keep code: they are built into other
// packages, or are for tests.
var notRoots = regexp.MustCompile(`(^|/)(internal|cmd|test|bench|actors|messages|fleettest|mutant)(/|$)|^(transport|fleet/placement)(/|$)`)

// forTests are the packages that only tests use.
var forTests = regexp.MustCompile(`^test/|test(/|$)`)

// notYet are the functions that no program reaches before the actors of groups are built, and the questions of a
// lifecycle that only they ask. Remove it with them.
var notYet = regexp.MustCompile(`^internal/group/|^internal/lifecycle/lifecycle\.go:.* Lifecycle\.(Held|Grouped|Failures)$`)

// TestEveryFunctionIsReached: a function is reached from a program of the workspace or from the exported
// API of a package that others import. What only tests reach belongs into their files, or into a package
// whose name ends in test. The tool is built from the version that bench/go.mod names; without it the test fails.
func TestEveryFunctionIsReached(t *testing.T) {
	if !*everything {
		t.Skip("needs -everything")
	}
	t.Parallel()
	whole, err := filepath.Abs(root)
	require.NoError(t, err)
	run := func(dir, work, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK="+work)
		var stderr strings.Builder // go says there what it downloads
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoErrorf(t, err, "%s %s: %s%s", name, args, out, stderr.String())
		return string(out)
	}
	dir := t.TempDir()
	tool := filepath.Join(dir, "deadcode")
	run(filepath.Join(whole, "bench"), "off", "go", "build", "-o", tool, "golang.org/x/tools/cmd/deadcode")

	// A program in a module beside the others uses the API: without it, what only embedders call is not reached.
	work := filepath.Join(dir, "go.work")
	all := modules(t)
	version := "go " + all["."].Go + "\n"
	text := version + "use .\n"
	patterns := []string{"."}
	for folder := range all {
		if strings.HasPrefix(folder, "adapters/") {
			continue // modules of frameworks, which are not in the workspace
		}
		text += fmt.Sprintf("use %q\n", filepath.Join(whole, folder))
		patterns = append(patterns, filepath.Join(whole, folder)+"/...")
	}
	text += fmt.Sprintf("replace %sfleet v0.0.0 => %q\n", module, filepath.Join(whole, "fleet"))
	require.NoError(t, os.WriteFile(work, []byte(text), 0o600))
	sums, err := os.ReadFile(filepath.Join(whole, "go.work.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(work+".sum", sums, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module roots\n"+version), 0o600))
	folders := 0
	var imports, uses strings.Builder
	for _, line := range strings.Fields(run(whole, work, "go", append([]string{"list", "-f", "{{.Dir}}"}, patterns[1:]...)...)) {
		folder, err := filepath.Rel(whole, line)
		require.NoError(t, err)
		names := exportedOf(t, line)
		if folder = filepath.ToSlash(folder); notRoots.MatchString(folder) || len(names) == 0 {
			continue
		}
		folders++
		fmt.Fprintf(&imports, "import p%d %q\n", folders, path.Join(module, folder))
		for _, name := range names {
			fmt.Fprintf(&uses, "\tuse(%s)\n", strings.Replace(name, "$", fmt.Sprintf("p%d.", folders), 1))
		}
	}
	program := "package main\n\n" + imports.String() + "\nvar used []any\n\nfunc use(v any) { used = append(used, v) }\n\nfunc main() {\n" + uses.String() + "}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))

	var dead []string
	reported := run(dir, work, tool, append([]string{"-filter", "^" + strings.TrimSuffix(module, "/"), "-f", "{{range .Funcs}}{{.Position}} {{.Name}}\n{{end}}"}, patterns...)...)
	require.Contains(t, reported, "test/", "the helpers of tests are not reached: the tool has looked")
	for line := range strings.Lines(reported) {
		line = strings.TrimPrefix(strings.TrimSpace(line), whole+"/")
		if file, _, _ := strings.Cut(line, ":"); line != "" && !forTests.MatchString(path.Dir(file)) && !notYet.MatchString(line) {
			dead = append(dead, line)
		}
	}
	require.Emptyf(t, strings.Join(dead, "\n"), "no program and no exported API reaches these")
}

// exportedOf returns expressions that name the exported functions and types in a folder, with a $ in front of
// the name. Generic ones and interfaces have no code of their own that could be reached.
func exportedOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	p, err := build.ImportDir(folder, 0)
	if err != nil || p.Name == "main" {
		return nil
	}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() && d.Type.TypeParams == nil {
					names = append(names, "$"+d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && s.TypeParams == nil {
						names = append(names, "new($"+s.Name.Name+")")
					}
				}
			}
		}
	}
	return names
}
