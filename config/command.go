package config

import (
	"os"
	"os/exec"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// readCommand reads the program, or a list of it and its first arguments.
func (e *entry) readCommand(v *hujson.Value) {
	e.commandValue = v
	list, isList := v.Value.(*hujson.Array)
	if !isList {
		e.readPath(v, &e.stdio.Command)
		return
	}
	if e.commandArgs = e.readList(v); len(e.commandArgs) == 0 || e.commandArgs[0] == "" {
		e.fail(v, `"command" is a list without a program; write it as the first element`)
		return
	}
	e.readPath(&list.Elements[0], &e.stdio.Command)
	e.commandArgs = e.commandArgs[1:]
}

// splitCommand splits "command" where it holds a whole command line, as in
// "npx -y some-server": many READMEs of servers write that. A program whose path
// has spaces stays whole.
func (e *entry) splitCommand() {
	if e.commandArgs != nil {
		e.stdio.Args = append(e.commandArgs, e.stdio.Args...)
		return
	}
	words := strings.Fields(e.stdio.Command)
	if len(words) < 2 || isProgram(e.stdio.Command) {
		return
	}
	const advice = `write the program alone into "command", and each argument into "args"`
	switch {
	case strings.ContainsAny(e.stdio.Command, `"'`):
		e.fail(e.commandValue, "\"command\" is a command line with quotes, and no shell reads it; %s", advice)
	case !isProgram(words[0]):
		e.warn(e.commandValue, "\"command\" has spaces, and no program of that name is installed; if it is a command line, %s", advice)
	default:
		e.stdio.Command, e.stdio.Args = words[0], append(words[1:], e.stdio.Args...)
		e.warn(e.commandValue, "\"command\" is a command line and is read as the program %q with %s; %s", words[0], display.Count(len(words)-1, "argument"), advice)
	}
}

// isProgram reports whether a program can be found by the text as it is written.
func isProgram(command string) bool {
	if _, err := exec.LookPath(command); err == nil {
		return true
	}
	_, err := os.Stat(command)
	return err == nil
}
