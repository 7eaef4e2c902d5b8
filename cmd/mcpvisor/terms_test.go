package main

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

	"github.com/mcpvisor/mcpvisor"
)

func TestTerms(t *testing.T) {
	for text, want := range map[string]string{
		"raise Timeouts.HardMax":         `raise "hard_max" in "timeouts"`,
		"raise Limits.InFlight or Queue": `raise "in_flight" in "limits" or Queue`,
		"create it or change Dir":        `create it or change "cwd"`,
		"Directory of Timeouts":          "Directory of Timeouts",
	} {
		require.Equal(t, want, configTerms(text))
	}
}

// goNames is a name of the Go API in a text.
var goNames = regexp.MustCompile(`\b(Timeouts|Limits|Probe|HTTP|Stdio|InMemory|OAuth|supervisor|facade)\.[A-Z]\w*|\bWith[A-Z]\w*|\b[A-Z][a-z]+[A-Z][a-z]\w*|\b(Dir|Era|Standby|Client)\b|\bno Auth\b|\bs Auth\b`)

// notPrinted are texts that no command can print: they are about servers in
// memory, about handlers, or about a RoundTripper of the host's.
var notPrinted = regexp.MustCompile(`in-memory|InMemory|RoundTripper|ClientInfo|WithRoots to New|CallRaw|HTTP\.Client`)

// TestTermsOfLibrary: whatever the library says, the command line says it in the
// words of its user.
func TestTermsOfLibrary(t *testing.T) {
	texts, left := 0, []string(nil)
	for _, folder := range []string{".", "transport", "actors", "facade", "messages", "supervisor", "internal/oauth", "config"} {
		files, err := filepath.Glob("../../" + folder + "/*.go")
		require.NoError(t, err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if _, tag := n.(*ast.Field); tag {
					return false
				}
				if _, imports := n.(*ast.ImportSpec); imports {
					return false
				}
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				if !strings.Contains(text, " ") || notPrinted.MatchString(text) {
					return true
				}
				texts++
				if goNames.MatchString(configTerms(text)) {
					left = append(left, path+": "+text)
				}
				return true
			})
		}
	}
	require.Greater(t, texts, 300)
	require.Empty(t, left, "put their words into phrases of terms.go, or into elsewhere if no command prints them")
}

// TestStartBound: a start is waited for until its own clocks have ended it.
func TestStartBound(t *testing.T) {
	c := configuredClient{specs: map[string]mcpvisor.ServerSpec{"a": {}, "b": {Timeouts: mcpvisor.Timeouts{Start: 1, List: -1}}}}
	require.Greater(t, c.startTimeout(), mcpvisor.DefaultStartTimeout+mcpvisor.DefaultListTimeout)
}
