package browser

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// inMemory is a server without a process.
func inMemory(name string, script mcptest.Script) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: name, InMemory: mcptest.InMemory(script)}
}

// evicted is a server that is given up at its first start.
func evicted(t *testing.T, c *facade.Client, name string) {
	t.Helper()
	spec := inMemory(name, mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: int(name[len(name)-1])}}})
	spec.StartSupervised = true
	require.NoError(t, c.Register(t.Context(), spec))
	require.ErrorIs(t, c.WaitReady(t.Context(), name), mcpvisor.ErrEvicted)
}

// rows are the names in the order of the rows.
func rows(p *page) []string {
	p.t.Helper()
	return eval[[]string](p, `[...document.querySelectorAll("#server-rows .name")].map((e) => e.textContent)`)
}

// focused is the text of the element with the focus.
func focused(p *page) string {
	p.t.Helper()
	return eval[string](p, `document.activeElement.innerText || document.activeElement.id`)
}

// A row keeps its place whatever happens to its server, until another order is chosen.
func TestRows_keep_their_place(t *testing.T) {
	c := newClient(t)
	for _, name := range []string{"a", "b", "d"} {
		register(t, c, inMemory(name, mcptest.Script{}))
	}
	broken := process("c", mcptest.Script{})
	broken.Policy = supervisor.Retry(supervisor.Unlimited, time.Hour, supervisor.WithMaxDelay(time.Hour))
	register(t, c, broken)
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	require.Equal(t, []string{"a", "b", "c", "d"}, rows(p))
	status, _ := c.ServerStatus("c")
	require.NoError(t, syscall.Kill(status.Session.PID, syscall.SIGKILL))
	p.has("#server-rows [data-key=c]", "backoff")
	require.Equal(t, []string{"a", "b", "c", "d"}, rows(p))

	choose := func(order string) {
		eval[bool](p, fmt.Sprintf(`(document.getElementById("order").value = %q, document.getElementById("order").dispatchEvent(new Event("change")), true)`, order))
	}
	choose("trouble")
	require.Equal(t, []string{"c", "a", "b", "d"}, rows(p))
	require.NoError(t, c.Restart(t.Context(), "c"))
	p.has("#server-rows [data-key=c]", "ready")
	require.Equal(t, []string{"c", "a", "b", "d"}, rows(p), "it has become ready, and stays where it is")
	register(t, c, inMemory("0", mcptest.Script{}))
	p.wait(`document.querySelector('#server-rows [data-key="0"]')`)
	require.Equal(t, []string{"c", "a", "b", "d", "0"}, rows(p), "a new one moves none")
	choose("name")
	require.Equal(t, []string{"0", "a", "b", "c", "d"}, rows(p))
	p.has("#server-rows [data-key=c]", "MB")
	choose("memory")
	require.Equal(t, []string{"c", "0", "a", "b", "d"}, rows(p), "only processes have memory of their own")
}

// The page works without a pointer: one Tab and Enter to the rows, j and k between them, Enter into one,
// Escape back to it.
func TestKeys_walk_the_servers(t *testing.T) {
	c := newClient(t)
	evicted(t, c, "lost")
	for _, name := range []string{"alpha", "beta", "gamma"} {
		register(t, c, inMemory(name, mcptest.Script{}))
	}
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#server-rows", "gamma")
	p.press(kb.Tab, kb.Enter)
	require.Equal(t, "alpha", focused(p), "one Tab leads to the rows")
	p.press("j")
	require.Equal(t, "beta", focused(p))
	p.press("j", "j", "j")
	require.Equal(t, "lost", focused(p), "the last one stays")
	p.press("k", kb.Enter)
	p.has("#detail h1", "gamma")
	require.Equal(t, "gamma", focused(p), "the focus follows")
	p.has("#detail [data-key=catalog]", "add")
	p.press("j")
	require.Equal(t, "add", focused(p), "j goes to the tools of a server")
	p.press(kb.Escape)
	p.wait(`document.querySelector("#detail").hidden`)
	require.Equal(t, "gamma", focused(p), "and comes back to where it was")
	p.press("?")
	p.wait(`document.getElementById("keys").open`)
	p.press("j", kb.Escape)
	p.wait(`!document.getElementById("keys").open`)
	require.Equal(t, "gamma", focused(p), "keys of the list do not act behind it")
}

// The filter covers rows, what needs attention, the tree, events and calls; Enter opens the one match.
func TestFilter_covers_the_page(t *testing.T) {
	c := newClient(t)
	evicted(t, c, "lost-1")
	evicted(t, c, "lost-2")
	for _, name := range []string{"alpha", "beta"} {
		register(t, c, inMemory(name, mcptest.Script{}))
		_, err := c.CallTool(t.Context(), name+"/echo", map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#calls", "beta")
	p.shortcut("/")
	p.press("lost-2")
	p.wait(`document.querySelectorAll("#server-rows .row").length === 1`)
	for _, part := range []string{"#attention", "#tree", "#events"} {
		p.has(part, "lost-2")
		require.NotContains(t, eval[string](p, `document.querySelector("`+part+`").innerText`), "lost-1", part)
	}
	require.NotContains(t, eval[string](p, `document.querySelector("#calls").innerText`), "beta")
	p.press(kb.Enter)
	p.has("#detail h1", "lost-2")
	p.press(kb.Escape)
	p.wait(`document.querySelector("#detail").hidden`)
	p.shortcut("/")
	p.press("alpha")
	p.has("#attention", "Nothing that fits the filter. 2 entries are about other servers.")
	require.NotContains(t, eval[string](p, `document.querySelector("#attention").innerText`), "All servers are ready")
	p.press(kb.Escape)
	p.wait(`document.querySelectorAll("#server-rows .row").length === 4`)
	p.shortcut("/")
	p.press("lost", kb.Enter)
	require.Equal(t, "lost-1", focused(p), "of two matches Enter goes to the first")
}

// A click on a state in the head shows the servers in it.
func TestStates_filter_by_a_click(t *testing.T) {
	c := newClient(t)
	evicted(t, c, "lost")
	register(t, c, inMemory("alpha", mcptest.Script{}))
	p := newPage(t, serve(t, c, nil).URL, prefix+"/#/s/alpha")
	p.has("#summary", "1 evicted")
	click := func(selector string) {
		t.Helper()
		eval[bool](p, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, selector))
	}
	click("#summary [data-state=evicted]")
	p.has("#servers-note", "1 of 2 servers, evicted")
	require.Equal(t, []string{"lost"}, rows(p))
	require.Equal(t, "true", eval[string](p, `document.querySelector("#summary [data-state=evicted]").getAttribute("aria-pressed")`))
	require.NoError(t, c.Unregister(t.Context(), "lost"))
	p.has("#summary", "0 evicted")
	p.has("#servers-note", "0 of 1 server, evicted")
	click("#show-all")
	p.wait(`document.querySelectorAll("#server-rows .row").length === 1`)
	require.NotContains(t, eval[string](p, `document.querySelector("#summary").innerText`), "evicted")
}

// A restart says that it is under way, and what became of it. r restarts when it is pressed twice.
func TestRestart_answers(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	evicted(t, c, "lost")
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/#/s/fs")
	p.has("#detail .title", "Restart")
	p.press("r")
	p.has("#answer", "Press r again to restart fs.")
	status, _ := c.ServerStatus("fs")
	require.Zero(t, status.Restarts)
	p.press("r")
	p.has("#answer", "fs is ready again after")
	p.has("#answer", "as epoch 2")
	p.press(kb.Escape)
	p.wait(`document.getElementById("answer").hidden`)
	p.press("r", "j", "r")
	p.has("#answer", "Press r again")
	status, _ = c.ServerStatus("fs")
	require.Equal(t, 1, status.Restarts, "another key in between takes the first r back")

	p.press(kb.Escape, kb.Escape)
	p.wait(`document.querySelector("#attention button[data-server=lost]")`)
	eval[bool](p, `(document.querySelector("#attention button[data-server=lost]").click(), true)`)
	p.has("#answer", "lost did not become ready: it is evicted.")
	require.NoError(t, c.Unregister(t.Context(), "fs"))
	p.has("#tree", "lost")
}

// With calls in flight a restart can wait for their end: by a button of its own, or in answer to the question.
func TestRestart_after_the_calls(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/#/s/fs")
	p.has("#detail .title", "Restart")
	require.NotContains(t, eval[string](p, `document.querySelector("#detail .title").innerText`), "after calls", "there are none")
	for _, press := range []func(){func() { p.click(`#detail .title [data-sure=drain]`) }, func() {
		p.click(`#detail .title [aria-label="Restart fs"]`)
		p.has("#answer", "A restart of fs fails 1 call in flight.")
		p.click(`#answer [data-sure=drain]`)
	}} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := c.CallTool(ctx, "fs/hang", nil)
			ended <- err
		}()
		p.has("#detail .title", "Restart after calls")
		press()
		p.has("#answer", "waits for the calls in flight")
		cancel()
		require.ErrorIs(t, <-ended, mcpvisor.ErrCanceled, "the restart did not end it")
		p.has("#answer", "fs is ready again after")
	}
}

// A page that is read only says so.
func TestRestart_on_a_page_that_is_read_only(t *testing.T) {
	c := newClient(t)
	register(t, c, inMemory("fs", mcptest.Script{}))
	p := newPage(t, serve(t, c, nil).URL, prefix+"/#/s/fs")
	p.has("#detail h1", "fs")
	p.press("r", "r")
	p.has("#answer", "read only")
}

// The page says which version serves it.
func TestVersion_is_shown(t *testing.T) {
	c := newClient(t)
	register(t, c, inMemory("fs", mcptest.Script{}))
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.wait(`/^mcpvisor \S/.test(document.getElementById("version").innerText)`)
}
