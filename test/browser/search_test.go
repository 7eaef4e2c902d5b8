package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The filter finds tools of all servers, and one leads to its form.
func TestSearch_for_a_tool(t *testing.T) {
	c := newClient(t)
	register(t, c, process("a", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "other"}}}))
	register(t, c, process("b", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "resize", Description: "Makes a picture smaller."}}}))
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#server-rows", "b")
	eval[bool](p, `(() => { const f = document.getElementById("filter"); f.value = "picture"; f.dispatchEvent(new Event("input")); return true })()`)
	p.has("#found", "b/resize")
	eval[bool](p, `(document.querySelector("#found a.name").click(), true)`)
	p.has("#tool-title", "resize")
	eval[bool](p, `Boolean(location.hash = "#/")`)
	p.wait(`document.getElementById("found").hidden`)
	require.Empty(t, eval[string](p, `document.getElementById("filter").value`))
}
