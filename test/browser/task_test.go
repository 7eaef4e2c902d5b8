package browser

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
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

// brokenOff is the journal of a process that has ended during two calls.
type brokenOff struct{ mcpvisor.Journal }

func (brokenOff) Entries(context.Context) ([]mcpvisor.JournalEntry, error) {
	began := time.Now().Add(-time.Hour)
	return []mcpvisor.JournalEntry{{Key: "order-1", Server: "fs", Tool: "charge", State: mcpvisor.JournalSent, Began: began},
		{Key: "order-2", Server: "fs", Tool: "index", State: mcpvisor.JournalTask, Began: began}}, nil
}

// Calls of an earlier process that have no end are shown with their keys.
func TestUnfinished_calls_are_shown(t *testing.T) {
	c := newClient(t, facade.WithJournal(brokenOff{}, ""))
	register(t, c, process("fs", mcptest.Script{}))
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#unfinished", "order-1")
	p.has("#unfinished", "interrupted, may have been executed")
	p.has("#unfinished", "task, no caller waits for it")
	eval[bool](p, `Boolean(location.hash = "#/s/fs")`)
	p.has("#detail [data-key=unfinished]", "order-2")
}
