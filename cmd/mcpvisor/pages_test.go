package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/commandline"
)

// Every command line of the pages is one that this program takes.
func TestPages_commands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	checked := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		inBlock := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "```") {
				inBlock = !inBlock
			}
			command := strings.TrimPrefix(line, "$ ")
			if !inBlock || !strings.HasPrefix(command, "mcpvisor ") {
				continue
			}
			command, _, _ = strings.Cut(command, " #")
			command, _, _ = strings.Cut(strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(command), " &"), " >> ", " > "), " > ")
			words, _ := commandline.SplitLine(strings.TrimSpace(command), "")
			parser, err := newParser(new(commandLine), userFile, io.Discard, io.Discard, func(int) {})
			require.NoError(t, err)
			_, err = parser.Parse(words)
			require.NoError(t, err, "%s: %s", page, command)
			checked++
		}
	}
	require.GreaterOrEqual(t, checked, 20)
}
