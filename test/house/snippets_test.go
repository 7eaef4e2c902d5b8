package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSnippets: every Go snippet in the README and in docs compiles. A snippet without
// a package clause is a list of declarations, or of statements of a function; the
// imports that it needs are added.
func TestSnippets(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	var all []snippet
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		all = append(all, snippetsIn(strings.TrimPrefix(page, root+"/"), string(text))...)
	}
	require.NotEmpty(t, all, "the README has a program")
	compile := compiler(t, all)
	for _, s := range all {
		require.NoError(t, compile(s), s.place)
	}
}

// TestSnippetsOfPeers: snippets for other clients compile as a part of bench, the only
// module that depends on them.
func TestSnippetsOfPeers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "migration.md"))
	require.NoError(t, err)
	compiled, err := os.ReadFile(filepath.Join(root, "bench", "migration_test.go"))
	require.NoError(t, err)
	pieces := regexp.MustCompile("(?ms)^```go mcp-go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, pieces)
	for _, piece := range pieces {
		require.Contains(t, string(compiled), piece[1])
	}
}

// TestSnippetsThatDoNotCompile tests the check itself.
func TestSnippetsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	page := strings.ReplaceAll("~~~go\nc, err := facade.New()\n~~~\n~~~go\nx := 1\n~~~\n~~~go\nfmt.Println(facade.Nothing)\n~~~\n~~~go\nfunc f() int { return supervisor.NoRetry() }\n~~~\n"+
		"~~~go\nfmt.Println(facade.Version())\n~~~\n~~~go\nfunc f() string { return facade.Version() }\n~~~\n~~~json\n{}\n~~~\n", "~~~", "```")
	all := snippetsIn("page.md", page)
	require.Len(t, all, 6)
	compile := compiler(t, all)
	for i, want := range []string{"declared and not used: c", "declared and not used: x", "undefined: facade.Nothing", "cannot use supervisor.NoRetry()", "", ""} {
		err := compile(all[i])
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, "page.md:7", all[2].place)
}

// snippet is one Go snippet of a page.
type snippet struct {
	place string
	file  *ast.File
	fset  *token.FileSet
	err   error
}

var fences = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func snippetsIn(page, text string) (all []snippet) {
	for _, at := range fences.FindAllStringSubmatchIndex(text, -1) {
		place := fmt.Sprintf("%s:%d", page, 1+strings.Count(text[:at[0]], "\n"))
		all = append(all, parseSnippet(place, text[at[2]:at[3]]))
	}
	return all
}

// parseSnippet turns a snippet into a file.
func parseSnippet(place, text string) snippet {
	s := snippet{place: place, fset: token.NewFileSet()}
	if s.file, s.err = parser.ParseFile(s.fset, place, text, 0); s.err == nil {
		return s
	}
	for _, wrapped := range []string{"package p\n%s\n" + text, "package p\n%s\nfunc _() {\n" + text + "\n}"} {
		if s.file, s.err = parser.ParseFile(s.fset, place, fmt.Sprintf(wrapped, ""), 0); s.err == nil {
			imports := "import (\n" + strings.Join(importsOf(s.file), "\n") + "\n)"
			s.file, s.err = parser.ParseFile(s.fset, place, fmt.Sprintf(wrapped, imports), 0)
			return s
		}
	}
	return s
}

// known are the packages whose import a snippet may leave out.
var known = map[string]string{
	"mcpvisor": strings.TrimSuffix(module, "/"), "supervisor": module + "supervisor",
	"facade": module + "facade", "config": module + "config", "mcptest": module + "mcptest", "chaos": module + "mcptest/chaos", "web": module + "web", "schema": module + "schema", "journal": module + "journal", "gateway": module + "gateway", "mcp": sdk + "mcp", "zerolog": zerolog,
	"json": "encoding/json", "http": "net/http", "slog": "log/slog", "exec": "os/exec", "signal": "os/signal",
}

// importsOf returns the imports for packages that a file uses without declaring them.
func importsOf(file *ast.File) []string {
	used := map[string]bool{}
	for _, name := range file.Unresolved {
		used[name.Name] = true
	}
	paths := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if of, ok := n.(*ast.SelectorExpr); ok {
			if name, ok := of.X.(*ast.Ident); ok && used[name.Name] {
				path, ours := known[name.Name]
				if !ours {
					path = name.Name
				}
				paths[strconv.Quote(path)] = true
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(paths))
}

// compiler type-checks snippets. All snippets share its imports.
func compiler(t *testing.T, all []snippet) func(snippet) error {
	t.Helper()
	args := slices.Collect(maps.Values(known))
	for _, s := range all {
		require.NoError(t, s.err, s.place)
		for _, i := range s.file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			require.NoError(t, err)
			args = append(args, path)
		}
	}
	fset := token.NewFileSet()
	imports := compiled(t, fset, args...)
	return func(s snippet) error {
		check := types.Config{Importer: imports}
		_, err := check.Check("snippet", s.fset, []*ast.File{s.file}, nil)
		return err
	}
}
