package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// notAgain is an entry of a server that is not started again.
func notAgain(s mcptest.Script) map[string]any {
	e := entry(s)
	e["retry"] = "none"
	return e
}

// Words of a call are typed by the last schema of a server that is down, so that the same command
// gets the answer that the journal has.
func TestCall_words_of_a_key_while_the_server_is_down(t *testing.T) {
	b := startReady(t, map[string]any{"one": notAgain(mcptest.Script{})}, "run", "--journal", filepath.Join(t.TempDir(), "calls.db"))
	sum := []string{"call", "one/add", "a=2", "b=3", "--key", "sum-1"}
	out, _ := b.exits(cli.ExitOK, sum...)
	require.JSONEq(t, `{"sum":5}`, out)
	b.exits(cli.ExitFailed, "call", "one/crash", "code=3", "--key", "crash-1")
	b.await("evicted")

	for _, name := range []string{"one/add", "mcp__one__add"} {
		sum[1] = name
		out, _ = b.exits(cli.ExitOK, sum...)
		require.JSONEq(t, `{"sum":5}`, out)
	}
	_, errs := b.exits(cli.ExitFailed, "call", "one/crash", "code=3", "--key", "crash-1")
	require.Contains(t, errs, "crashed")
	require.Contains(t, errs, "outcome unknown")
	code, _, errs := b.command("call", "one/add", "a=2", "b=4", "--key", "sum-1")
	require.NotZero(t, code)
	require.Contains(t, errs, "other arguments")
	// Without a key the words are compared with that schema, and nothing is sent.
	_, errs = b.exits(cli.ExitUsage, "call", "one/add", "a=2", "c=3")
	require.Contains(t, errs, "c is not a parameter")
	_, errs = b.exits(cli.ExitUnavailable, "call", "one/add", "a=2", "b=3")
	require.Contains(t, errs, "evicted")
}

// The words of a key have the types of its first call, also if the server has never listed the tool to this
// process, or declares other types since then.
func TestCall_words_of_a_key_after_a_restart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.db")
	typed := func(kind string) map[string]any {
		return map[string]any{"one": notAgain(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "sum", As: "echo",
			InputSchema: json.RawMessage(`{"properties":{"a":{"type":"` + kind + `"},"text":{"type":"string"},"list":{"type":"array","items":{"type":"` + kind + `"}}}}`)}}})}
	}
	sum := []string{"call", "one/sum", "a=2", "text=4", "list=6", "--key", "sum-1"}
	b := startReady(t, typed("number"), "run", "--journal", file)
	out, _ := b.exits(cli.ExitOK, sum...)
	require.Equal(t, "4", out)
	b.stop()

	for mark, servers := range map[string]map[string]any{" ready: ": typed("string"), "evicted": {"one": goodAndBad()["bad"]}} {
		t.Run(mark, func(t *testing.T) {
			b := startRun(t, servers, "run", "--journal", file)
			defer b.stop()
			b.await(mark)
			out, _ := b.exits(cli.ExitOK, sum...)
			require.Equal(t, "4", out)
			_, errs := b.exits(cli.ExitUsage, "call", "one/sum", "a=x", "--key", "sum-1")
			require.Contains(t, errs, "with other arguments: a must be a number")
			_, errs = b.exits(cli.ExitUsage, "call", "one/sum", "a=2", "text=5", "--key", "sum-1")
			require.Contains(t, errs, "with other arguments")
			require.NotContains(t, errs, "use another key")
			require.Contains(t, errs, "with another key this one is executed")
		})
	}
}

// A server that becomes ready between the look at its tools and the call gets no text for a number.
func TestCall_words_without_schema(t *testing.T) {
	looks, dry := 0, 0
	h := http.NewServeMux()
	h.HandleFunc("GET /run/tools", func(w http.ResponseWriter, _ *http.Request) {
		if looks++; looks < 3 {
			_, _ = w.Write([]byte(`{"tools":[]}`))
			return
		}
		_, _ = w.Write([]byte(`{"tools":[{"name":"one/add","definition":{"name":"add","inputSchema":{"properties":{"a":{"type":"number"}}}}}]}`))
	})
	h.HandleFunc("POST /run/call", func(w http.ResponseWriter, r *http.Request) {
		if dry := r.URL.Query().Get("dry"); dry != "true" {
			t.Errorf("dry is %q", dry)
		}
		dry++
		_, _ = w.Write([]byte(`{"error":{"kind":"canceled","outcome":"not_sent","message":"canceled"}}`))
	})
	set := &servers.Set{Client: attach.InProcess(h)}
	inv := new(invocation)
	inv.Context = t.Context()
	arguments, err := (&callCmd{Name: "one/add", Arguments: []string{"a=2"}}).prepare(inv, set, nil)
	require.NoError(t, err)
	require.Equal(t, `{"a":2}`, string(arguments))
	require.Equal(t, 2, dry)
}

// A dry call says why a tool cannot be called, and sends nothing if it can.
func TestCall_dry(t *testing.T) {
	dir := t.TempDir()
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{StateDir: dir}), "bad": goodAndBad()["bad"]}, "run")
	b.await("evicted")
	code, _, errs := b.command("tools", "one") // waits for its start
	require.Equal(t, cli.ExitOK, code, errs)
	client, _, err := attach.Find(t.Context(), b.config)
	require.NoError(t, err)
	defer client.Close()
	for tool, want := range map[string]error{"one/count": mcpvisor.ErrCanceled, "one/none": mcpvisor.ErrUnknownTool, "bad/count": mcpvisor.ErrEvicted, "none/count": mcpvisor.ErrUnknownServer} {
		_, err := client.CallTool(t.Context(), tool, json.RawMessage(`{"key":"k"}`), attach.CallOptions{Dry: true})
		require.ErrorIs(t, err, want, tool)
	}
	require.Empty(t, mcptest.Executions(dir))
	code, _, errs = b.command("call", "bad/count", "key=k") // it has never listed a tool
	require.Equal(t, cli.ExitUnavailable, code)
	require.Contains(t, errs, "evicted")
}

// Arguments that cannot be sent say what is wrong with them, and nothing is called.
func TestCall_arguments_refused(t *testing.T) {
	path := configFile(t, mcptest.Script{})
	for argument, want := range map[string]string{
		`b`:                   `argument "b" is not key=value`,
		`=x`:                  `argument "=x" is not key=value`,
		`{"text":`:            `the arguments are not valid JSON`,
		`[1]`:                 `the arguments are not a JSON object`,
		"{\"text\":\"\xff\"}": `is not UTF-8`,
		"text=\xff":           `is not UTF-8`,
	} {
		out, code := runTool(t, "-c", path, "call", "one/echo", argument)
		require.Equal(t, cli.ExitUsage, code, "%q: %s", argument, out)
		require.Contains(t, out, want)
	}
	out := toolExits(t, cli.ExitUsage, "-c", path, "prompt", "one", "greet", "name=\xff")
	require.Contains(t, out, "is not UTF-8")
}

// The user of a terminal is asked only for the inputs of the servers that a command uses.
func TestCall_asks_for_its_server_in_terminal(t *testing.T) {
	program, dir := buildProgram(t), shortDir(t)
	mine := entry(mcptest.Script{})
	mine["env"].(map[string]string)["MINE"] = "${input:mine}"
	path := serversFile(t, map[string]any{"other": map[string]any{"command": "x", "args": []string{"${input:other}"}}, "one": mine})
	term := newTerminal(t, dir, fmt.Sprintf("XDG_RUNTIME_DIR=%s %s -c %s call one/echo text=hello; echo ended with $?; cat", dir, program, path))
	term.await(`mine \(or set MCPVISOR_INPUT_MINE\):`)
	term.press("a", "Enter")
	screen := term.await(`ended with 0`)
	require.Contains(t, screen, "hello")
	require.NotContains(t, screen, "MCPVISOR_INPUT_OTHER")
}

// A tool without a server names all servers, also those that lack something, and asks nothing.
func TestCall_names_of_servers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"servers": {"one": {"command": "${input:x}"}, "two": {"comand": "x"}, "off": {"disabled": true}}}`), 0o600))
	out := toolExits(t, cli.ExitUsage, "-c", path, "call", "echo")
	require.Contains(t, out, "name tools as server/tool, as in one/echo (servers: one, two)\n")
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
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{
		Name: evil, Version: evil,
		Tools:     []mcptest.ToolDef{{Name: "t", Description: evil, Text: evil}},
		Resources: []mcptest.ResourceDef{{URI: "x://1", Name: evil, Text: evil}},
		Templates: []mcptest.TemplateDef{{URITemplate: "x://{n}", Name: evil}},
		Prompts:   []mcptest.PromptDef{{Name: "p", Description: evil, Text: evil}},
	})}, "run")
	b.await(" ready: ")
	for _, args := range []string{"tools", "resources", "prompts", "status", "doctor", "call one/t", "read one x://1", "prompt one p"} {
		for _, format := range []string{"", "--json"} {
			t.Run(args+format, func(t *testing.T) {
				out, errs := b.exits(cli.ExitOK, strings.Fields(format+" "+args)...)
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

// formArguments make the fixture server ask for a name.
const formArguments = `{"method":"elicitation/create","params":{"mode":"form","message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`

// Without a terminal a server learns that this client asks nothing.
func TestCall_form_without_terminal(t *testing.T) {
	out := toolExits(t, cli.ExitFailed, "-c", configFile(t, mcptest.Script{}), "call", "one/consult", formArguments)
	require.Contains(t, out, "mcpvisor --fresh call asks on a terminal")
	require.NotContains(t, out, "Who are you")
}

// The error says how the user can answer a form: of a server that asks, and of one that has
// learnt that nothing is asked here.
func TestCall_form_attached(t *testing.T) {
	refuses := mcptest.ToolDef{Name: "refuses", IsError: true, Text: "the client lacks the capability Elicitation"}
	servers := map[string]any{"one": entry(mcptest.Script{Tools: []mcptest.ToolDef{{Name: "consult"}, {Name: "fail"}, refuses}})}
	b := startReady(t, servers, "run")
	for args, want := range map[string]string{
		"call one/consult " + strings.ReplaceAll(formArguments, " ", ""): "(mcpvisor --fresh call asks on a terminal what a form or a URL needs)\n",
		"call one/refuses":         "one/refuses reports an error; if it needs a form, mcpvisor --fresh call asks you on a terminal, and mcpvisor run asks nothing\n",
		"--fresh call one/refuses": "one/refuses reports an error; if it needs a form, call it on a terminal, and without --json\n",
		"call one/fail":            "one/fail reports an error\n",
	} {
		_, errs := b.exits(cli.ExitFailed, strings.Split(args, " ")...)
		require.Contains(t, errs, want, args)
	}
}

// On a terminal the user answers the form of a server during the call.
func TestCall_form_in_terminal(t *testing.T) {
	program, path, dir := buildProgram(t), configFile(t, mcptest.Script{}), shortDir(t)
	arguments := filepath.Join(dir, "arguments.json")
	require.NoError(t, os.WriteFile(arguments, []byte(strings.TrimSuffix(strings.TrimPrefix(formArguments, `{"method":"elicitation/create","params":`), "}")), 0o600))
	command := fmt.Sprintf("XDG_RUNTIME_DIR=%s %s -c %s call one/consult method=elicitation/create params:=@%s; echo ended with $?; cat", dir, program, path, arguments)
	term := newTerminal(t, dir, command)
	term.await(`server one asks: Who are you\?\nAnswer 1 question for it\? y: yes, n: decline, c: cancel:`)
	term.press("y", "Enter")
	term.await(`name \(string\):`)
	term.press("Ada", "Enter")
	screen := term.await(`ended with 0`)
	require.Regexp(t, `"name": ?"Ada"`, screen)
	require.Contains(t, screen, "one/consult answered in ")
}

// The table of status has colours on a terminal, unless the user does not want them.
func TestStatus_colors_in_terminal(t *testing.T) {
	program, path, dir := buildProgram(t), configFile(t, mcptest.Script{}), shortDir(t)
	command := fmt.Sprintf("export XDG_RUNTIME_DIR=%s; %s -c %s status; NO_COLOR=1 %s -c %s status; echo ended; cat", dir, program, path, program, path)
	term := newTerminal(t, dir, command)
	term.await(`ended`)
	colored := term.run("capture-pane", "-e", "-p", "-t", "t")
	require.Equal(t, 2, strings.Count(colored, "ready"), colored)
	require.Equal(t, 1, strings.Count(colored, "\x1b[32mready"), colored)
}
