// Package commandline completes command lines of mcpvisor in bash, zsh, fish and PowerShell.
//
// The scripts of the shells are a few lines each. They run "mcpvisor __complete" with the
// words of the line, which knows commands and flags from the model of kong, and names of
// servers and tools from [Names]. A positional argument says by its tag what it is, as in
// `complete:"tool"`.
package commandline

import (
	_ "embed" // scripts
	"fmt"
	"strings"
)

// These are the kinds of arguments that this package knows by itself, beside lists such as "a,b".
const (
	kindServer  = "server"  // a server; each is given once
	kindCommand = "command" // a command of the program
	kindFile    = "file"    // a file
)

// Files is the one candidate that stands for the files of the directory.
const Files = ":files"

// Candidate is one way to complete the last word of a line.
type Candidate struct {
	Value, Description string
}

// Names returns the values of a kind that the tag of an argument names, which only a configuration or a
// running `mcpvisor run` knows. given are the arguments before it. It is called as needed.
type Names func(kind string, given []string) []Candidate

var (
	//go:embed script/mcpvisor.bash
	bash string
	//go:embed script/mcpvisor.zsh
	zsh string
	//go:embed script/mcpvisor.fish
	fish string
	//go:embed script/mcpvisor.ps1
	powershell string
)

// Shells are those that have a script.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

// Script returns the script of a shell.
func Script(shell string) (string, error) {
	switch shell {
	case "bash":
		return bash, nil
	case "zsh":
		return zsh, nil
	case "fish":
		return fish, nil
	case "powershell", "pwsh":
		return powershell, nil
	}
	return "", fmt.Errorf("there is no completion for %q; name one of: %s", shell, strings.Join(Shells, ", "))
}
