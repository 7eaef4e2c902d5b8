package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The table and the page of a server say what it uses, and draw the last minutes.
func TestUsage_is_shown(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#server-rows .load", "MB")
	for range 20 {
		_, err := c.CallTool(t.Context(), "fs/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	p.wait(`document.querySelector("#server-rows .spark path")?.getAttribute("d").includes("L")`)
	p.has("#server-rows .load", "% CPU")
	eval[bool](p, `Boolean(location.hash = "#/s/fs")`)
	p.has("#detail .facts", "Memory")
	p.has("#detail .facts", "calls a minute")
	p.wait(`document.querySelectorAll("#detail .facts .spark").length >= 3`)
}
