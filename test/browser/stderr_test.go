package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// The stderr of a server that is ready is followed, until the reader scrolls up; its lines can be
// wrapped or not, and copied.
func TestStderr_of_a_ready_server(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	write := func(from, to int) {
		for i := from; i < to; i++ {
			_, err := c.CallTool(t.Context(), "fs/stderr", map[string]any{"text": fmt.Sprintf("line %d %s", i, strings.Repeat("word ", 80))})
			require.NoError(t, err)
		}
	}
	write(0, 60)
	p := newPage(t, serve(t, c, nil).URL, prefix+"/#/s/fs")
	const pre = `document.querySelector("#detail pre.tall")`
	const atEnd = `(` + pre + `.scrollTop + ` + pre + `.clientHeight >= ` + pre + `.scrollHeight - 4)`
	p.has("#detail pre.tall", "line 59 ")
	p.wait(atEnd)
	write(60, 70)
	p.has("#detail pre.tall", "line 69 ")
	p.wait(atEnd)

	eval[bool](p, `Boolean(`+pre+`.scrollTop = 0) || true`)
	p.wait(`document.querySelector("[data-act=follow]").getAttribute("aria-pressed") === "false"`)
	write(70, 80)
	p.has("#detail pre.tall", "line 79 ")
	require.False(t, eval[bool](p, atEnd), "who reads is not moved")
	eval[bool](p, `(document.querySelector("[data-act=follow]").click(), true)`)
	p.wait(atEnd)

	require.False(t, eval[bool](p, pre+`.scrollWidth > `+pre+`.clientWidth + 1`))
	eval[bool](p, `(document.querySelector("[data-act=wrap]").click(), true)`)
	p.wait(pre + `.scrollWidth > ` + pre + `.clientWidth + 1`)
	eval[bool](p, `(window.copied = "", navigator.clipboard ? navigator.clipboard.writeText = async (text) => { copied = text } : 0, document.querySelector("[data-act=copy-stderr]").click(), true)`)
	p.has("#answer", "stderr")
	require.Contains(t, eval[string](p, `copied`), "line 79 ")
}
