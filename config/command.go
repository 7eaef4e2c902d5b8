package config

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
)

// splitCommand takes a command line apart that stands in "command" as a whole,
// as "npx -y some-server" does. A program whose path holds spaces stays whole.
func (e *entry) splitCommand() {
	words := strings.Fields(e.stdio.Command)
	if len(words) < 2 || isProgram(e.stdio.Command) {
		return
	}
	const mend = `write the program alone into "command", and each argument into "args"`
	switch {
	case strings.ContainsAny(e.stdio.Command, `"'`):
		e.fail(e.commandAt, "\"command\" is a command line with quotes, and no shell reads it; %s", mend)
	case !isProgram(words[0]):
		e.warn(e.commandAt, "no program has the name in \"command\", which holds spaces; if it is a command line, %s", mend)
	default:
		e.stdio.Command, e.stdio.Args = words[0], append(words[1:], e.stdio.Args...)
		e.warn(e.commandAt, "\"command\" is a command line; it is read as the program %q with %s; %s", words[0], arguments(len(words)-1), mend)
	}
}

func arguments(n int) string {
	if n == 1 {
		return "one argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// isProgram reports whether a command can be found as it is written.
func isProgram(command string) bool {
	if _, err := exec.LookPath(command); err == nil {
		return true
	}
	_, err := os.Stat(command)
	return err == nil
}

// warnAboutName says what a server is called whose entry has an illegal name.
func (e *entry) warnAboutName(at *hujson.Value) {
	err := mcpvisor.CheckServerName(e.name)
	switch {
	case err == nil:
	case e.name == "":
		e.warn(at, "the name is empty; the server is called %q here", e.spec.Name)
	case len(e.name) <= maxNameLength:
		e.warn(at, "this name holds characters that a server name cannot have; the server is called %q here", e.spec.Name)
	default:
		e.warn(at, "this name is longer than a server name can be; the server is called %q here", e.spec.Name)
	}
}

// driveEscape finds a Windows path whose backslashes were read as escapes:
// "C:\temp" is C:, a tab and emp.
var driveEscape = regexp.MustCompile(`^[A-Za-z]:[\x08\t\n\f\r]`)

// badEscape finds a backslash that begins no escape of JSON.
var badEscape = regexp.MustCompile(`\\(u[^"]{0,3}[^0-9A-Fa-f"]|[^"\\/bfnrtu])`)

const backslashes = `a backslash is written twice in JSON: "C:\\Users\\me"; or write "C:/Users/me"`
