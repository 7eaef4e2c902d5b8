package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// configFile writes a configuration with one scripted server, "one".
func configFile(t *testing.T, script mcptest.Script) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"one": entry(script)}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// A terminal gets the result of a call without what would change it.
func TestCall_safe_in_terminal(t *testing.T) {
	program, dir := buildProgram(t), shortDir(t)
	path := configFile(t, mcptest.Script{Tools: []mcptest.ToolDef{{Name: "t", Text: "a\x1b[2J\u202eb\r\nc"}}})
	term := newTerminal(t, dir, "XDG_RUNTIME_DIR="+dir+" "+program+" -c "+path+" call one/t; cat")
	term.await(`(?m)^a\[2Jb$\n^c$`)
}

// Every command prints texts of servers, and none prints a character that could
// change what the terminal shows.
func TestOutput_safe_for_terminals(t *testing.T) {
	const evil = "a\u202eb\u2066c\x1b[31md\u009be\U000E0041f"
	path := configFile(t, mcptest.Script{
		Name: evil, Version: evil,
		Tools:     []mcptest.ToolDef{{Name: "t", Description: evil, Text: evil}},
		Resources: []mcptest.ResourceDef{{URI: "x://1", Name: evil, Text: evil}},
		Templates: []mcptest.TemplateDef{{URITemplate: "x://{n}", Name: evil}},
		Prompts:   []mcptest.PromptDef{{Name: "p", Description: evil, Text: evil}},
	})
	for _, args := range []string{"tools", "resources", "prompts", "status", "doctor", "call one/t", "read one x://1", "prompt one p"} {
		for _, format := range []string{"", "--json"} {
			t.Run(args+format, func(t *testing.T) {
				var out, errs bytes.Buffer
				all := append(strings.Fields(format), append([]string{"-c", path}, strings.Fields(args)...)...)
				require.Equal(t, cli.ExitOK, run(t.Context(), all, strings.NewReader(""), &out, &errs), errs.String())
				verbatim := format == "" && (args == "call one/t" || args == "read one x://1")
				if !verbatim && (args != "status" || format != "") {
					require.Regexp(t, `a(\\u202e)?b`, out.String(), "the text is printed")
				}
				shown := out.String() + errs.String()
				if verbatim {
					require.Equal(t, evil, out.String(), "a program gets the text of the server")
					shown = errs.String()
				}
				for _, r := range shown {
					require.False(t, r != '\n' && display.IsUnsafe(r), "%q in %q", r, out.String())
				}
			})
		}
	}
}
