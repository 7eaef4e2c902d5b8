package house

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// updateAPI rewrites the recorded API:
//
//	go test ./test/house -run TestPublicAPI -update-api
var updateAPI = flag.Bool("update-api", false, "rewrite docs/api")

// apiFolder has one file for each module with frozen packages: the record of their exported identifiers.
const apiFolder = "docs/api"

// unfrozen are packages that can be imported but whose API may change at any time, each
// with the reason. All other packages outside internal, cmd and test are public.
var unfrozen = map[string]string{
	"actors":              "the runtime behind facade; programs use facade",
	"facade/relay":        "for programs that pass calls of others on; it grows with gateway and fleet",
	"fleet":               "in the making",
	"fleet/certs":         "certificates for tests and small fleets",
	"fleet/guard":         "a part of fleet",
	"fleet/peer":          "a part of fleet",
	"fleet/fleettest":     "fleets of processes, for the tests of the fleet",
	"fleet/placement":     "the plan of a fleet; programs will use fleet",
	"fleet/store":         "the contract of the stores, in the making",
	"fleet/store/etcd":    "in the making",
	"gateway":             "an MCP server in front of a client; its options grow",
	"gateway/settings":    "the settings of a gateway, which grow with it",
	"monitor":             "what a client counts; its fields grow with the page",
	"gateway/clients":     "counts what clients of a gateway do; its fields grow with the page",
	"mcptest/chaos":       "the storm of `mcpvisor chaos`; its report grows",
	"mcptest/oauthtest":   "an authorization server for tests, which follows the specification",
	"lock":                "what it compares grows with the protocol",
	"records":             "what it keeps of calls and events grows",
	"rules":               "the conditions of its rules grow",
	"messages":            "what actors send each other",
	"transport":           "the contract between actors and the transports; programs use facade",
	"transport/dial":      "makes the dialer of a specification, for facade",
	"transport/discovery": "reads the lists of servers, for actors",
	"web/api":             "the shapes of the page's JSON, for readers in other processes",
}

// TestPublicAPI compares the exported API of the public packages with the files of docs/api. A
// failure shows the difference and the command that records it.
func TestPublicAPI(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(root, filepath.FromSlash(apiFolder))
	files := apiTexts(t)
	if *updateAPI {
		require.NoError(t, os.RemoveAll(folder))
		require.NoError(t, os.Mkdir(folder, 0o755))
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
		}
		return
	}
	recorded, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range recorded {
		require.Contains(t, files, entry.Name(), "%s: no module has it", apiFolder)
	}
	for name, got := range files {
		want, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err, "run: go test ./test/house -run TestPublicAPI -update-api")
		want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))
		if string(want) == got {
			continue
		}
		removed, added := diffLines(string(want), got)
		require.Failf(t, "the API has changed", "the exported API differs from %s/%s:\n%s%s"+
			"If the change is intended, name it in CHANGELOG.md and run:\ngo test ./test/house -run TestPublicAPI -update-api",
			apiFolder, name, prefixed("- ", removed), prefixed("+ ", added))
	}
}

// TestPublicAPI_sees_changes: a renamed field, a changed signature and a changed JSON
// key change the text.
func TestPublicAPI_sees_changes(t *testing.T) {
	text := func(source string) string {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", "package p\n"+source, 0)
		require.NoError(t, err)
		p, err := new(types.Config).Check("p", fset, []*ast.File{file}, nil)
		require.NoError(t, err)
		var out bytes.Buffer
		(&apiWriter{out: &out, pkg: p}).write()
		return out.String()
	}
	const source = "type T struct {\n\tA int `json:\"a\"`\n\tb int\n}\n\nfunc (T) M(n int) error { return nil }\nconst C T2 = 1\ntype T2 int\nfunc f() {}\n"
	before := text(source)
	require.Equal(t, "const C T2 = 1\ntype T struct\n\tA int `json:\"a\"`\nfunc (T) M(n int) error\ntype T2 int\n", before)
	for _, change := range [][2]string{{"A int", "B int"}, {`json:"a"`, `json:"b"`}, {"n int", "n uint"}, {"= 1", "= 2"}, {"(T) M", "(*T) M"}} {
		require.NotEqual(t, before, text(strings.Replace(source, change[0], change[1], 1)), change[0])
	}
	require.Equal(t, before, text(strings.Replace(source, "b int", "c int", 1)), "unexported names do not count")
}

// public returns the import paths of the packages whose API is recorded, sorted.
func public(t *testing.T) (paths []string) {
	t.Helper()
	var folders []string
	for _, p := range graph(t, "linux") {
		folder, ours := p.folder()
		top, _, _ := strings.Cut(folder, "/")
		if !ours || top == "cmd" || top == "test" || slices.Contains(strings.Split(folder, "/"), "internal") || unfrozen[folder] != "" {
			continue
		}
		folders, paths = append(folders, folder), append(paths, p.ImportPath)
	}
	require.Subset(t, folders, []string{".", "config", "facade", "mcptest", "supervisor"})
	slices.Sort(paths)
	return paths
}

// apiTexts describes the exported identifiers of the public packages, one per line, by the name of the
// file of their module.
func apiTexts(t *testing.T) map[string]string {
	t.Helper()
	paths := public(t)
	imports := compiled(t, token.NewFileSet(), paths...)
	files := map[string]string{}
	for _, path := range paths {
		p, err := imports.Import(path)
		require.NoError(t, err)
		of := graph(t, "linux")[path].Module.Path
		name := strings.ReplaceAll(strings.TrimPrefix(of, "github.com/mcpvisor/"), "/", "-") + ".txt"
		out := bytes.NewBufferString(files[name])
		if files[name] == "" {
			fmt.Fprintf(out, "The exported API of module %s, made from its types by TestPublicAPI in test/house.\n"+
				"To record a change: go test ./test/house -run TestPublicAPI -update-api\n", of)
		}
		fmt.Fprintf(out, "\npackage %s // import %q\n", p.Name(), path)
		(&apiWriter{out: out, pkg: p}).write()
		files[name] = out.String()
	}
	return files
}

// apiWriter writes the exported API of one package.
type apiWriter struct {
	out *bytes.Buffer
	pkg *types.Package
}

// write writes the identifiers by kind (constants, variables, functions, types) and then
// by name.
func (a *apiWriter) write() {
	scope := a.pkg.Scope()
	for _, kind := range []func(types.Object) bool{isA[*types.Const], isA[*types.Var], isA[*types.Func], isA[*types.TypeName]} {
		for _, name := range scope.Names() { // sorted
			if o := scope.Lookup(name); o.Exported() && kind(o) {
				a.object(o)
			}
		}
	}
}

// isA reports whether an object is of the kind.
func isA[T types.Object](o types.Object) bool {
	_, ok := o.(T)
	return ok
}

// qualifier names the package of a type; the package itself is left out.
func (a *apiWriter) qualifier(p *types.Package) string {
	if p == a.pkg {
		return ""
	}
	return p.Name()
}

func (a *apiWriter) typeString(t types.Type) string { return types.TypeString(t, a.qualifier) }

func (a *apiWriter) line(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }

// signature returns the parameters and results of a function.
func (a *apiWriter) signature(f *types.Func) string {
	return strings.TrimPrefix(a.typeString(f.Type()), "func")
}

// object describes one identifier of the package scope.
func (a *apiWriter) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		text := o.Val().ExactString()
		if o.Val().Kind() == constant.String {
			text = o.Val().String()
		}
		a.line("const %s %s = %s", o.Name(), a.typeString(o.Type()), text)
	case *types.Var:
		a.line("var %s %s", o.Name(), a.typeString(o.Type()))
	case *types.Func:
		a.line("func %s%s", o.Name(), a.signature(o))
	case *types.TypeName:
		a.typeName(o)
	}
}

// typeName describes a type: the exported fields with their JSON keys, or the methods
// of an interface, and the declared methods.
func (a *apiWriter) typeName(o *types.TypeName) {
	if o.IsAlias() {
		a.line("type %s = %s", o.Name(), a.typeString(types.Unalias(o.Type())))
		return
	}
	named := o.Type().(*types.Named)
	switch u := named.Underlying().(type) {
	case *types.Struct:
		a.line("type %s struct", o.Name())
		for i := range u.NumFields() {
			f := u.Field(i)
			if !f.Exported() {
				continue
			}
			text := f.Name() + " " + a.typeString(f.Type())
			if f.Embedded() {
				text = a.typeString(f.Type()) + " // embedded"
			}
			if tag := reflect.StructTag(u.Tag(i)).Get("json"); tag != "" {
				text += fmt.Sprintf(" `json:%q`", tag)
			}
			a.line("\t%s", text)
		}
	case *types.Interface:
		a.line("type %s interface", o.Name())
		for i := range u.NumMethods() {
			if m := u.Method(i); m.Exported() {
				a.line("\t%s%s", m.Name(), a.signature(m))
			} else {
				a.line("\t(with unexported methods)")
			}
		}
	default:
		a.line("type %s %s", o.Name(), a.typeString(u))
	}
	a.methods(named)
}

// methods describes the exported methods of a type.
func (a *apiWriter) methods(named *types.Named) {
	var lines []string
	for i := range named.NumMethods() {
		m := named.Method(i)
		if !m.Exported() {
			continue
		}
		receiver := named.Obj().Name()
		if _, pointer := m.Signature().Recv().Type().(*types.Pointer); pointer {
			receiver = "*" + receiver
		}
		lines = append(lines, fmt.Sprintf("func (%s) %s%s", receiver, m.Name(), a.signature(m)))
	}
	slices.Sort(lines)
	for _, line := range lines {
		a.line("%s", line)
	}
}

// diffLines returns the lines that are in only one of two texts.
func diffLines(want, got string) (removed, added []string) {
	count := map[string]int{}
	for line := range strings.Lines(want) {
		count[line]++
	}
	for line := range strings.Lines(got) {
		if count[line]--; count[line] < 0 {
			added = append(added, line)
		}
	}
	for line := range strings.Lines(want) {
		if count[line] > 0 {
			count[line]--
			removed = append(removed, line)
		}
	}
	return removed, added
}

// prefixed adds a prefix to each line.
func prefixed(prefix string, lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(prefix + line)
	}
	return b.String()
}

// TestUnfrozenPackagesSaySo: the first sentence of a package that may change says it.
func TestUnfrozenPackagesSaySo(t *testing.T) {
	for folder := range unfrozen {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
		require.NoError(t, err)
		said := slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			first, _, _ := strings.Cut(string(text), "\n//\n")
			return strings.HasPrefix(first, "// Package ") && strings.Contains(first, " is not part of the stable API. ")
		})
		require.True(t, said, "the documentation of package %s begins with: Package NAME is not part of the stable API.", folder)
	}
}
