// Package servers opens the servers that a command works with: those of a running `mcpvisor
// run` of the configuration, or copies that end with the command. It selects them, asks the
// user for what they need, waits for them, and says why one is not ready.
package servers

import "github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"

// Opener opens the servers of one invocation.
type Opener struct {
	cli.Invocation

	// Forms says that servers may ask the user. AskForms sets it.
	Forms bool
	// Progress is the line that forms replace; nil without a terminal, and before AskForms.
	Progress *ProgressLine

	inputInterrupted bool              // an interrupt ended the question for an input
	answers          map[string]string // what the user has answered, by the id of the input
}
