package house

import (
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFacadeAPIHasNoActors walks over every type that a user of package facade can
// reach without leaving this module. None may come from the actor library.
func TestFacadeAPIHasNoActors(t *testing.T) {
	t.Parallel()
	facade, err := compiled(t, token.NewFileSet(), public(t)...).Import(module + "facade")
	require.NoError(t, err)

	w := walk{seen: map[types.Type]bool{}}
	scope := facade.Scope()
	for _, name := range scope.Names() {
		if o := scope.Lookup(name); o.Exported() {
			w.visit(o.Type(), "facade."+name)
		}
	}
	require.Greater(t, len(w.seen), 100, "the types of facade are visited")
	require.Empty(t, w.found)
}

// walk visits the exported parts of types.
type walk struct {
	seen  map[types.Type]bool
	found []string
}

func (w *walk) visit(t types.Type, way string) {
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		w.visit(types.Unalias(t), way)
	case *types.Named:
		w.named(t, way)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				w.visit(f.Type(), way+"."+f.Name())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			w.visit(m.Type(), way+"."+m.Name())
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			if !isHidden(v.Type()) {
				w.visit(v.Type(), way+"("+v.Name()+")")
			}
		}
		w.visit(t.Results(), way)
	case *types.Tuple:
		for v := range t.Variables() {
			w.visit(v.Type(), way+"("+v.Name()+")")
		}
	case *types.Map:
		w.visit(t.Key(), way)
		w.visit(t.Elem(), way)
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.visit(t.Elem(), way)
	}
}

// isHidden reports whether a parameter has an unexported type, of which a caller of another package has no value.
func isHidden(t types.Type) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	return ok && !n.Obj().Exported()
}

func (w *walk) named(t *types.Named, way string) {
	for arg := range t.TypeArgs().Types() {
		w.visit(arg, way)
	}
	p := t.Obj().Pkg()
	if p == nil {
		return
	}
	switch path := p.Path() + "/"; {
	case strings.HasPrefix(path, proto), path == module+"actors/", path == module+"transport/":
		w.found = append(w.found, way+" shows "+t.String())
		return
	case !strings.HasPrefix(path, module):
		return
	}
	for m := range t.Methods() {
		if m.Exported() {
			w.visit(m.Type(), way+"."+m.Name())
		}
	}
	w.visit(t.Underlying(), way)
}
