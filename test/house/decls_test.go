package house

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExportedNamesAreDocumented checks every package that can be imported. A group of
// constants or variables may share the comment of the group.
func TestExportedNamesAreDocumented(t *testing.T) {
	documented := 0
	for _, s := range sources(t) {
		if !s.isGo() || s.isTest() || strings.HasPrefix(s.path, "cmd/") || strings.HasPrefix(s.path, "bench/") {
			continue
		}
		file := s.parse(t)
		for _, d := range exported(file) {
			require.True(t, d.documented, "%s: %s has no comment; say what it is, with unit, default and errors", s.path, d.name)
			documented++
		}
	}
	require.Greater(t, documented, 200, "declarations are read")
}

type declaration struct {
	name       string
	documented bool
}

// exported lists the exported top-level declarations of a file, and the exported
// methods of exported types.
func exported(file *ast.File) (all []declaration) {
	add := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		d := declaration{name: name.Name}
		for _, doc := range docs {
			d.documented = d.documented || len(strings.TrimSpace(doc.Text())) > 0
		}
		if name.IsExported() {
			all = append(all, d)
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				add(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name, spec.Doc, spec.Comment, d.Doc)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name, spec.Doc, spec.Comment, d.Doc)
					}
				}
			}
		}
	}
	return all
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// usesGoleak matches a use of goleak.
var usesGoleak = regexp.MustCompile(`goleak\.(Verify|Find)`)

// TestGoroutineLeaksAreChecked: a package whose tests start goroutines checks for leaked
// goroutines at the end.
func TestGoroutineLeaksAreChecked(t *testing.T) {
	starts, looks := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		if !s.isTest() || strings.HasPrefix(s.path, "bench/") {
			continue
		}
		file := s.parse(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				starts[s.folder()] = s.path
			}
			return true
		})
		if usesGoleak.Match(s.text) {
			looks[s.folder()] = true
		}
	}
	require.Greater(t, len(starts), 3, "goroutines are found")
	for folder, path := range starts {
		require.True(t, looks[folder], "%s starts goroutines, but nothing in %s uses goleak; see VerifyTestMain", path, folder)
	}
}
