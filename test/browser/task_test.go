package browser

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A call that its server executes as a task is in flight.
func TestTask_is_shown(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{Versions: []string{"2026-07-28"}, Tools: []mcptest.ToolDef{{Name: "index", Task: &mcptest.TaskDef{Takes: time.Hour}}}}))
	_, err := c.StartTask(t.Context(), "fs/index", nil)
	require.NoError(t, err)
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#flight", "/index")
	p.has("#flight", "task, working")
	eval[bool](p, `Boolean(location.hash = "#/s/fs")`)
	p.has("#detail [data-key=flight]", "task, working")
}
