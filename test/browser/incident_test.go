package browser

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// What an incarnation wrote before it ended can be read while the next one runs, and the call
// that was lost has the time at which it was.
func TestIncident_is_read_after_the_restart(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	_, err := c.CallTool(t.Context(), "fs/stderr", map[string]any{"text": "FATAL: the disk is full"})
	require.NoError(t, err)
	_, err = c.CallTool(t.Context(), "fs/crash", nil)
	require.Error(t, err)
	require.Eventually(t, func() bool {
		st, _ := c.ServerStatus("fs")
		return st.State == supervisor.StateReady && st.Epoch == 2
	}, patience, time.Millisecond)
	p := newPage(t, serve(t, c, nil).URL, prefix+"/#/s/fs")
	p.has("#detail [data-key=history] details summary", "stderr, 1 line")
	eval[bool](p, `(document.querySelector("#detail [data-key=history] summary").click(), true)`)
	p.has("#detail [data-key=history] details[open] pre", "FATAL: the disk is full")
	p.has("#detail [data-key=calls] thead", "Ended")
	lost := c.History().UnknownCalls()
	require.Len(t, lost, 1)
	for _, width := range []int64{1400, 1280} {
		p.media("light", width)
		p.wait(`innerWidth === ` + fmt.Sprint(width) + ` && [...document.querySelectorAll("#detail .scroll")].every((e) => e.scrollWidth <= e.clientWidth)`)
	}
	shown, err := time.Parse(time.RFC3339, eval[string](p, `document.querySelector("#detail [data-key=calls] tr.unknown time").dateTime`))
	require.NoError(t, err)
	require.WithinDuration(t, lost[0].Began.Add(lost[0].Took), shown, 2*time.Millisecond, "JavaScript has milliseconds")
}

// A restart that ends calls in flight is asked for, and says how many it ends.
func TestRestart_with_calls_in_flight(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "index", As: "hang"}}}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.CallTool(ctx, "fs/index", nil)
	}()
	defer func() { cancel(); <-ended }()
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/#/s/fs")
	p.has("#detail [data-key=flight]", "running")
	eval[bool](p, `(document.querySelector("#detail [data-act=restart]").click(), true)`)
	p.has("#answer", "A restart of fs fails 1 call in flight.")
	p.shortcut("r")
	p.has("#answer", "Press r again to restart fs. It fails 1 call in flight.")
	eval[bool](p, `(document.querySelector("#detail [data-act=restart]").click(), true)`)
	p.has("#answer", "A restart of fs fails 1 call in flight.")
	st, _ := c.ServerStatus("fs")
	require.EqualValues(t, 1, st.Epoch)
	eval[bool](p, `(document.querySelector("#answer [data-act=restart-all]").click(), true)`)
	p.has("#answer", "fs is ready again")
	<-ended
}

// A phone has no room for columns of numbers, and shows the numbers below the name.
func TestNumbers_on_a_phone(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	_, err := c.CallTool(t.Context(), "fs/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	require.NoError(t, c.Restart(t.Context(), "fs"))
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	shown := `getComputedStyle(document.querySelector("#server-rows .few")).display !== "none"`
	p.media("light", 1400)
	p.wait(`!(` + shown + `)`)
	p.media("light", 390)
	p.wait(shown)
	p.has("#server-rows .few", "1 call · 1 restart")
}
