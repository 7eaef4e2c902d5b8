package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestConfigTerms(t *testing.T) {
	for text, want := range map[string]string{
		"raise Timeouts.CallTotal":            `raise "call_total" in "timeouts"`,
		"raise Limits.MaxInFlight or the MB":  `raise "max_in_flight" in "limits" or the MB`,
		"create it or change Stdio.Dir":       `create it or change "cwd"`,
		"Directory of Timeouts":               "Directory of Timeouts",
		`set HTTP.Auth, in a file "auth": {}`: `set "auth": {}`,
	} {
		require.Equal(t, want, ConfigTerms(text))
	}
}

// goNames matches a name of the Go API in a text.
var goNames = regexp.MustCompile(`\b(Timeouts|Limits|Probe|HTTP|Stdio|InMemory|OAuth|Policy|ServerSpec|supervisor|facade|mcpvisor)\.[A-Z]\w*|\bWith[A-Z]\w*|\b[A-Z][a-z]+[A-Z][a-z]\w*|\b(Dir|Era|Standby|Client)\b|\bno Auth\b|\bs Auth\b|with Authorize of`)

// fieldPath matches the path of a field of mcpvisor.ServerSpec in a text.
var fieldPath = regexp.MustCompile(`\b(?:ServerSpec\.)?((?:Timeouts|Limits|Probe|Stdio|HTTP|Policy)(?:\.[A-Z]\w*)+)`)

// notPrinted matches texts that no command prints: they are about servers in
// memory, about handlers and interceptors, about a RoundTripper of the host, about options
// of packages web, gateway and config, or about what mcpvisor fleet run sets itself.
var notPrinted = regexp.MustCompile(`web: |web\.With|in-memory|InMemory|RoundTripper|ClientInfo|WithRoots to New|CallRaw|CallToolRaw|FetchAuthorizationCode|HTTP\.Client|HeaderFunc|NewCallResult|config\.WithWebSocket|WithJournal: |WithKey is for calls of tools|WithMeta|WithRelay|WithTaskRelay|fleet: Config|guard: OnLost|peer: a client needs|gateway\.With|raise MaxResultBytes|raise HTTPLimits\.MaxBytes`)

// No text of the library reaches the user of a command with a name of the Go API
// in it, and each field that a text names exists.
func TestConfigTerms_texts_of_the_library(t *testing.T) {
	var left, unknown []string
	texts := libraryTexts(t)
	for _, text := range texts {
		if strings.Contains(text, ": gateway: ") { // it has limits of its own, and no command links it
			continue
		}
		for _, m := range fieldPath.FindAllStringSubmatch(text, -1) {
			if !isField(reflect.TypeFor[mcpvisor.ServerSpec](), m[1]) {
				unknown = append(unknown, text)
			}
		}
		words := strings.ReplaceAll(ConfigTerms(text), "WebSocket", "socket") // a word of its own
		if !notPrinted.MatchString(text) && goNames.MatchString(words) {
			left = append(left, text)
		}
	}
	require.Greater(t, len(texts), 300)
	for i := 0; i < len(phrasePairs); i += 2 {
		require.Contains(t, strings.Join(texts, "\n"), phrasePairs[i], "no text of the library has this phrase; remove it from terms.go")
	}
	require.Empty(t, unknown, "they name fields that mcpvisor.ServerSpec does not have")
	require.Empty(t, left, "name fields by their path, add phrases in terms.go, or add to notPrinted what no command prints")
}

// isField reports whether a struct type has the field that a path names.
func isField(of reflect.Type, path string) bool {
	for _, name := range strings.Split(path, ".") {
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		field, ok := of.FieldByName(name)
		if !ok {
			return false
		}
		of = field.Type
	}
	return true
}

// libraryTexts returns the string literals of the library that have a space in
// them, each with its file.
func libraryTexts(t *testing.T) (texts []string) {
	t.Helper()
	root := filepath.Join("..", "..", "..", "..")
	skipped := []string{".git", "bench", "bin", "cmd", "docs", "etcdtest", "fixture", "fleettest", "mcptest", "node_modules", "test", "testdata"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_keys.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field, *ast.ImportSpec: // tags and paths
				return false
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && strings.Contains(text, " ") {
					texts = append(texts, path+": "+text)
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	return texts
}
