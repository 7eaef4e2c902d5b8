package lifecycle_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/lifecycle"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

type word struct{ name, value, meaning string }

// glossary reads the typed string constants of this package and of package supervisor with
// their comments, by type, in the order of their declaration.
func glossary(t *testing.T) map[string][]word {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files = append(files, filepath.Join("..", "..", "supervisor", "state.go"), filepath.Join("..", "..", "supervisor", "cause.go"))
	words := map[string][]word{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			kind, typed := spec.Type.(*ast.Ident)
			value, literal := spec.Values[0].(*ast.BasicLit)
			if !typed || !literal || value.Kind != token.STRING {
				return true
			}
			name := spec.Names[0].Name
			text, err := strconv.Unquote(value.Value)
			require.NoError(t, err)
			require.NotEmpty(t, spec.Doc.Text(), "%s has no comment", name)
			if text == "" {
				text = "–"
			}
			words[kind.Name] = append(words[kind.Name], word{name, text, meaning(name, spec.Doc.Text())})
			return true
		})
	}
	return words
}

var docLink = regexp.MustCompile(`\[([A-Z][A-Za-z.]*)\]`)

// meaning is a comment without the name that Go wants at its beginning.
func meaning(name, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	text = strings.TrimPrefix(text, name)
	text = strings.TrimSpace(strings.TrimPrefix(text, ":"))
	text = docLink.ReplaceAllString(text, "`$1`")
	return strings.ToUpper(text[:1]) + text[1:]
}

// Every constant that a table uses is explained, every constant that is explained is
// used, and each state is listed by States or StandbyStates.
func TestGlossaryCoversTheTables(t *testing.T) {
	used := map[string]map[string]bool{"State": {}, "StandbyState": {}, "InputKind": {}, "EffectKind": {}, "Guard": {}}
	collect := func(states string, rows []tableRow) {
		for _, r := range rows {
			used[states][r.from], used[states][r.to] = true, true
			used["InputKind"][r.on] = true
			used["Guard"][r.when] = true
			for _, e := range r.do {
				used["EffectKind"][string(e)] = true
			}
		}
	}
	collect("State", lifecycleRows())
	collect("StandbyState", standbyTableRows())
	listed := map[string]bool{"": true}
	for _, s := range supervisor.States() {
		listed[string(s)] = true
	}
	require.Equal(t, used["State"], listed)
	delete(used["State"], string(lifecycle.StateNew)) // no server that Status shows has it
	listed = map[string]bool{}
	for _, s := range lifecycle.StandbyStates() {
		listed[string(s)] = true
	}
	require.Equal(t, used["StandbyState"], listed)
	words := glossary(t)
	for kind, want := range used {
		got := map[string]bool{}
		for _, w := range words[kind] {
			got[strings.TrimPrefix(w.value, "–")] = true
		}
		require.Equal(t, want, got, "%s", kind)
	}
}
