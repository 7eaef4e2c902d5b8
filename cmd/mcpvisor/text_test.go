package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

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
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{
		Name: evil, Version: evil,
		Tools:     []mcptest.ToolDef{{Name: "t", Description: evil, Text: evil}},
		Resources: []mcptest.ResourceDef{{URI: "x://1", Name: evil, Text: evil}},
		Templates: []mcptest.TemplateDef{{URITemplate: "x://{n}", Name: evil}},
		Prompts:   []mcptest.PromptDef{{Name: "p", Description: evil, Text: evil}},
	})}, "run")
	b.await(" ready  ")
	for _, args := range []string{"tools", "resources", "prompts", "status", "doctor", "call one/t", "read one x://1", "prompt one p"} {
		for _, format := range []string{"", "--json"} {
			t.Run(args+format, func(t *testing.T) {
				code, out, errs := b.command(strings.Fields(format + " " + args)...)
				require.Equal(t, cli.ExitOK, code, errs)
				verbatim := format == "" && (args == "call one/t" || args == "read one x://1")
				if !verbatim && (args != "status" || format != "") {
					require.Regexp(t, `a(\\u202e)?b`, out, "the text is printed")
				}
				shown := out + errs
				if verbatim {
					require.Equal(t, evil, out, "a program gets the text of the server")
					shown = errs
				}
				for _, r := range shown {
					require.False(t, r != '\n' && display.IsUnsafe(r), "%q in %q", r, out)
				}
			})
		}
	}
}
