package browser

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
)

// A call that its server executes as a task is in flight, and can be canceled.
func TestTask_is_shown(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{Versions: []string{"2026-07-28"}, Tools: []mcptest.ToolDef{{Name: "index", Task: &mcptest.TaskDef{Takes: time.Hour}}}}))
	task, err := c.StartTask(t.Context(), "fs/index", nil)
	require.NoError(t, err)
	s := serve(t, c, nil, web.WithControls())
	p := newPage(t, s.URL, prefix+"/")
	p.has("#flight", "/index")
	p.has("#flight", "task, working")
	eval[bool](p, `Boolean(location.hash = "#/s/fs")`)
	p.has("#detail [data-key=flight]", "task, working")
	reader := newPage(t, serve(t, c, nil).URL, prefix+"/#/s/fs")
	reader.has("#detail [data-key=flight]", "task, working")
	require.Zero(t, eval[int](reader, `document.querySelectorAll("[data-act=cancel]").length`), "a page that is read only")
	p.click(`#detail [data-key=flight] [data-act=cancel]`)
	p.has("#answer", "The server was asked to cancel the call.")
	_, err = task.WaitRaw(t.Context())
	require.ErrorContains(t, err, "the server has canceled the task")
	p.wait(`document.querySelector("#detail [data-key=flight]").hidden`)
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
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.has("#unfinished", "order-1")
	p.has("#unfinished", "interrupted, may have been executed")
	p.has("#unfinished", "task, no caller waits for it")
	require.Equal(t, []string{`{"key":"order-2"}`}, eval[[]string](p, `[...document.querySelectorAll("#unfinished [data-act=cancel]")].map((b) => b.dataset.call)`), "only a task can be canceled")
	eval[bool](p, `Boolean(location.hash = "#/s/fs")`)
	p.has("#detail [data-key=unfinished]", "order-2")
}
