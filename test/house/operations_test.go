package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	_ "github.com/mcpvisor/mcpvisor/config" // sets configkeys.All
	"github.com/mcpvisor/mcpvisor/internal/configkeys"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// TestOperationsPageIsComplete: docs/operations.md lists every state, event, cause,
// timeout, limit and policy field, with its default where a constant holds it.
func TestOperationsPageIsComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	page := string(text)
	row := func(name string) string {
		_, after, found := strings.Cut(page, "\n| `"+name+"` |")
		require.True(t, found, "docs/operations.md has no row for %s", name)
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	for _, state := range supervisor.States() {
		row(string(state))
	}
	for _, constant := range constants(t, "supervisor", "CauseKind") {
		row(constant)
	}
	for _, constant := range constants(t, ".", "EventKind") {
		row(constant)
	}
	fields := func(prefix string, value any) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			row(prefix + f.Name)
		}
	}
	fields("Timeouts.", mcpvisor.Timeouts{})
	fields("Probe.", mcpvisor.Probe{})
	fields("", mcpvisor.Limits{})
	fields("", supervisor.Policy{})

	for _, k := range configkeys.All() {
		if name, limit := strings.CutPrefix(k.Field, "Limits."); limit {
			require.True(t, strings.HasPrefix(strings.TrimSpace(row(name)), k.Default), "the default of %s is %s", name, k.Default)
		}
	}
	defaults := mcpvisor.ServerSpec{}.WithDefaults()
	for name, want := range map[string]string{
		"Timeouts.Start": defaults.Timeouts.Start.String(), "Timeouts.Negotiate": defaults.Timeouts.Negotiate.String(),
		"Timeouts.List": defaults.Timeouts.List.String(), "Timeouts.Call": defaults.Timeouts.Call.String(),
		"Timeouts.CallTotal": defaults.Timeouts.CallTotal.String(), "Timeouts.Shutdown": defaults.Timeouts.Shutdown.String(),
		"Probe.Interval": defaults.Probe.Interval.String(), "Probe.Timeout": defaults.Probe.Timeout.String(),
	} {
		short := strings.NewReplacer("1m0s", "60s", "10m0s", "10min").Replace(want)
		require.True(t, strings.HasPrefix(strings.ReplaceAll(row(name), " ", ""), short), "the default of %s is %s", name, want)
	}
}

// constants returns the values of the string constants of one type in a folder.
func constants(t *testing.T, folder, kind string) (values []string) {
	t.Helper()
	for _, s := range sources(t) {
		if !s.isGo() || s.isTest() || s.folder() != folder {
			continue
		}
		file := s.parse(t)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			typed, ok := spec.Type.(*ast.Ident)
			literal, isLiteral := spec.Values[0].(*ast.BasicLit)
			if ok && isLiteral && typed.Name == kind {
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				values = append(values, value)
			}
			return true
		})
	}
	require.Greater(t, len(values), 5, "the constants of %s are found", kind)
	return values
}

// TestCookbookNamesKindsThatExist: the kinds of events that a line of docs/cookbook.md selects are kinds of events.
func TestCookbookNamesKindsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "cookbook.md"))
	require.NoError(t, err)
	selected := regexp.MustCompile(`\.kind == "(\w+)"`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, selected, 3)
	for _, kind := range selected {
		require.Contains(t, constants(t, ".", "EventKind"), kind[1])
	}
}
