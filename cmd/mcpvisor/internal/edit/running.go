package edit

import (
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
)

// tellRun makes a running `mcpvisor run` of the configuration read the file that was changed,
// and says what that changes. Without one it does nothing.
func tellRun(inv *cli.Invocation) {
	running, info, err := attach.Find(inv.Context, inv.Sources.Key)
	if err != nil {
		return
	}
	defer running.Close()
	answer, err := running.Reload(inv.Context, false)
	switch {
	case err != nil:
		inv.Warn("", "mcpvisor run (pid %d) did not read the file again: %v", info.PID, err)
		return
	case answer.Problem != "":
		inv.Warn("", "%s; mcpvisor run (pid %d) keeps its servers as they are", answer.Problem, info.PID)
		return
	}
	// The run follows the file, and may have been faster than this command.
	if text := describeChanges(answer.Changes); text != "" {
		inv.Note("mcpvisor run (pid %d) has read it: %s", info.PID, text)
	} else {
		inv.Note("mcpvisor run (pid %d) has read it", info.PID)
	}
}

func describeChanges(changes []control.Change) string {
	var parts []string
	for _, c := range changes {
		text := string(c.Action) + " " + c.Server
		if c.Error != "" {
			text += " failed: " + c.Error
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
