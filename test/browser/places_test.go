package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// click clicks on an element.
func (p *page) click(selector string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`document.querySelector(%q)`, selector))
	eval[bool](p, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, selector))
}

// hash waits for the fragment of the address.
func (p *page) hash(want string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`location.hash === %q`, want))
}

// Each place has an address, a key and a title. Back, forward and a reload keep the place, and what was looked
// for there. How much needs attention is seen from each.
func TestPlaces(t *testing.T) {
	c := newClient(t)
	evicted(t, c, "lost")
	for _, name := range []string{"alpha", "beta"} {
		register(t, c, process(name, mcptest.Script{}))
	}
	_, err := c.CallTool(t.Context(), "alpha/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	p := newPage(t, serve(t, c, nil, web.WithTitle("ops")).URL, prefix+"/")
	p.has("#server-rows", "beta")
	title := func(want string) {
		t.Helper()
		p.wait(fmt.Sprintf(`document.title === %q`, want))
	}
	title("(1) Overview · ops")
	for i, place := range []string{"servers", "calls", "clients", "tools", "resources", "events", ""} {
		p.press(fmt.Sprint((i+1)%7 + 1))
		p.hash("#/" + place)
		p.has("#places a[href='#/']", "1")
		p.wait(fmt.Sprintf(`document.querySelector("#places [aria-current=page]").hash === %q`, "#/"+place))
		require.Equal(t, "place", eval[string](p, `document.activeElement.id`), "the focus is at the head of the place")
		for id, in := range map[string]string{"attention": " ", "fleet": "  servers ", "calls": "  calls ", "clients": " clients ", "tools": " tools ", "lists": " resources ", "events": "  events "} {
			shown := strings.Contains(in, " "+place+" ") || place == "" && strings.HasPrefix(in, "  ") || place == "" && in == " "
			require.Equal(t, !shown, eval[bool](p, fmt.Sprintf(`document.getElementById(%q).hidden`, id)), "%s in %q", id, place)
		}
	}
	p.place("resources")
	p.has("#lists [data-key=resources]", "mcptest://")
	p.has("#lists [data-key=resources] .tag", "template")
	p.has("#lists [data-key=prompts]", "alpha/")
	title("(1) Resources and prompts · ops")

	// What is chosen is in the address.
	p.place("servers")
	p.shortcut("/")
	p.press("a", kb.Tab)
	p.click("#server-heads :nth-child(2) button")
	p.click("#server-heads :nth-child(2) button")
	p.click("#summary [data-state=ready]")
	eval[bool](p, `(document.getElementById("window").value = "3600", document.getElementById("window").dispatchEvent(new Event("change")), true)`)
	const chosen = "#/servers?q=a&sort=-name&state=ready&range=3600"
	p.hash(chosen)
	require.Equal(t, []string{"beta", "alpha"}, rows(p))
	p.click("#server-rows [data-key=alpha] a.name")
	p.has("#detail h1", "alpha")
	title("(1) alpha · Servers · ops")
	require.Empty(t, eval[string](p, `document.getElementById("filter").value`))
	p.click("#detail tr[data-key='alpha/echo'] a")
	p.has("#tool-title", "echo")
	title("(1) echo · alpha · Servers · ops")
	eval[bool](p, `(history.back(), true)`)
	p.hash("#/s/alpha")
	eval[bool](p, `(history.back(), true)`)
	p.hash(chosen)
	shows := func() {
		t.Helper()
		p.has("#servers-note", "2 of 3 servers, ready")
		require.Equal(t, []string{"beta", "alpha"}, rows(p))
		require.Equal(t, "a name 3600", eval[string](p, `["filter", "order", "window"].map((id) => document.getElementById(id).value).join(" ")`))
	}
	shows()
	p.do(chromedp.Reload())
	p.wait(`document.documentElement.dataset.loaded === "true"`)
	shows()
	eval[bool](p, `(history.forward(), true)`)
	p.has("#detail h1", "alpha")
	p.press(kb.Escape) // back to the list that was left
	p.hash(chosen)
	p.wait(`document.querySelector("#detail").hidden`)
	p.press(kb.Escape)
	p.hash("#/servers?sort=-name&range=3600")

	// Nothing in an address is trusted.
	p.place("nowhere/else?sort=__proto__&state=__proto__&range=-1&group=constructor&q=" + strings.Repeat("%", 3000))
	p.has("#place", "Overview")
	require.Equal(t, "200 0", eval[string](p, `document.getElementById("filter").value.length + " " + document.getElementById("window").value`))
	p.place("?q=" + strings.Repeat("a", 199) + "😀😀") // no character is cut in two
	p.has("#servers-note", "0 of 3 servers")
	p.place("servers?state=constructor&sort=toString")
	require.Len(t, rows(p), 3)
	p.place("calls?sort=toString&range=NaN")
	p.has("#calls", "alpha/echo")
	p.press("j")
	require.Equal(t, "alpha", focused(p), "j walks the rows of each place")

	// An address that was typed is that of a place.
	eval[bool](p, `(location.hash = "#/servers/", true)`)
	p.wait(`!document.getElementById("overview").hidden`)
	eval[bool](p, `(document.getElementById("filter").value = "alpha", document.getElementById("filter").dispatchEvent(new Event("input", { bubbles: true })), true)`)
	p.wait(`location.hash.includes("q=alpha")`)
	p.click("#server-rows [data-key=alpha] a.name")
	p.has("#detail h1", "alpha")
	p.has("#detail", "Servers")
}

// Tables are ordered by a click on the head of a column: as it is mostly wanted, the other way round, and then as
// they were.
func TestTables_are_ordered_by_their_heads(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "b"}, {Name: "a"}, {Name: "c"}}}))
	for i, tool := range []string{"b", "c", "c"} {
		_, err := c.CallTool(t.Context(), "fs/"+tool, map[string]any{"n": i})
		require.NoError(t, err)
	}
	p := newPage(t, serve(t, c, nil).URL, prefix+"/#/tools")
	names := func(where string, want ...string) {
		t.Helper()
		p.wait(fmt.Sprintf(`[...document.querySelectorAll("%s tbody a.name")].map((a) => a.textContent.at(-1)).join() === %q`, where, strings.Join(want, ",")))
	}
	for _, where := range []string{"#tools", "#detail [data-key=catalog]"} {
		p.has(where, "Tokens")
		head := where + " thead th:nth-child(3) button"
		p.wait(fmt.Sprintf(`[...document.querySelectorAll("%s tbody a.name")].length === 3`, where))
		for _, step := range []struct{ order, sort, first string }{{"descending", "sort=calls", "c"}, {"ascending", "sort=-calls", "a"}, {"", "", ""}} {
			p.click(head)
			p.wait(fmt.Sprintf(`(document.querySelector(%q).closest("th").getAttribute("aria-sort") ?? "") === %q`, head, step.order))
			require.Contains(t, eval[string](p, `location.hash`), step.sort)
			if step.first != "" {
				p.wait(fmt.Sprintf(`document.querySelector("%s tbody a.name").textContent.at(-1) === %q`, where, step.first))
			}
		}
		require.NotContains(t, eval[string](p, `location.hash`), "sort")
		p.click(where + " thead [data-sort=tool]")
		names(where, "a", "b", "c")
		checkAccess(p, "an ordered table")
		p.place("s/fs")
	}
	p.place("calls?sort=-took")
	p.wait(`document.querySelector("#calls th:nth-child(4)").getAttribute("aria-sort") === "ascending"`)
	checkAccess(p, "ordered calls")
}

// What needs attention is one line for each cause, however many servers have it. The line unfolds, and stays so.
func TestAttention_unfolds(t *testing.T) {
	c := newClient(t)
	names := make([]string, 9)
	for i := range names {
		names[i] = fmt.Sprintf("broken-%d", i+1)
		spec := process(names[i], mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: names[i] + ": no such table"}, {At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 3}}})
		spec.StartSupervised, spec.Policy = true, supervisor.Retry(6, time.Millisecond, supervisor.WithParking(time.Hour), supervisor.WithMaxDelay(time.Millisecond))
		require.NoError(t, c.Register(t.Context(), spec))
	}
	for _, name := range names {
		require.Eventually(t, func() bool { s, _ := c.ServerStatus(name); return s.State == supervisor.StateParked }, patience, time.Millisecond)
	}
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.has("#attention", "broken-1 … broken-9")
	p.has("#attention", "9 servers: …: no such table (exit status 3)")
	require.Equal(t, 1, eval[int](p, `document.querySelectorAll("#attention li").length`))
	require.Less(t, eval[int](p, `document.querySelector("#attention li").clientHeight`), 60, "one line")
	require.False(t, eval[bool](p, `document.querySelectorAll("#attention .names a")[8].checkVisibility()`), "folded")
	p.click("#attention summary")
	p.has("#attention .names", "broken-5")
	p.has("#attention", "Fix the cause")
	p.has("#attention", "each: has ended 7 times within 5 min")
	for _, look := range looks(t) {
		p.media(look.scheme, look.width)
		checkAccess(p, "an unfolded line, "+look.suffix)
		p.shot("attention-" + look.suffix)
	}
	require.NoError(t, c.Unregister(t.Context(), "broken-9"))
	p.has("#attention", "8 servers: ")
	p.has("#attention .names", "broken-5")
	p.place("events")
	p.has("#places", "1")
}

// Two hundred servers with five thousand tools stay usable: the page draws what is looked at, and a redraw is short.
func TestPage_of_200_servers_and_5000_tools(t *testing.T) {
	const servers, each = 200, 25
	c := newClient(t)
	tools := make([]mcptest.ToolDef, each)
	for i := range tools {
		tools[i] = mcptest.ToolDef{Name: fmt.Sprintf("tool_%02d", i), Description: strings.Repeat("Does something useful. ", 8)}
	}
	for i := range servers {
		register(t, c, inMemory(fmt.Sprintf("server-%03d", i), mcptest.Script{NoResources: true, NoPrompts: true, Tools: tools}))
	}
	for i := range 300 {
		_, err := c.CallTool(t.Context(), fmt.Sprintf("server-%03d/tool_%02d", i%servers, i%each), nil)
		require.NoError(t, err)
	}
	p := newTab(t, serve(t, c, nil).URL)
	p.first(`window.redraws = []; window.requestAnimationFrame = ((ask) => (draw) => ask((at) => {
		const began = performance.now();
		draw(at);
		redraws.push(performance.now() - began);
	}))(window.requestAnimationFrame)`)
	p.open(prefix + "/")
	for place, ready := range map[string]string{"": `document.querySelector("#servers-note").textContent.includes("200")`, "servers": `document.querySelectorAll("#server-rows .row").length === 100`,
		"tools": `document.querySelectorAll("#tools tbody tr").length === 100`, "calls": `document.querySelectorAll("#calls tbody tr").length === 100`, "events": `document.querySelectorAll("#events li").length >= 60`, "s/server-100": `document.querySelectorAll("#detail tbody tr").length >= 25`} {
		p.place(place)
		p.wait(ready)
		eval[bool](p, `(redraws.length = 0, true)`)
		for i := range 20 {
			_, err := c.CallTool(t.Context(), fmt.Sprintf("server-%03d/tool_%02d", i, i), nil)
			require.NoError(t, err)
		}
		p.wait(`redraws.length >= 3`)
		nodes, height := eval[int](p, `document.querySelectorAll("*").length`), eval[int](p, `document.documentElement.scrollHeight`)
		redraw := eval[float64](p, `redraws.toSorted((a, b) => a - b)[redraws.length >> 1]`)
		t.Logf("%-12q %5d elements, %5d px high, redraw in %.1f ms", place, nodes, height, redraw)
		require.Less(t, nodes, 8000, place)
		require.Less(t, height, 12000, place)
		require.Less(t, redraw, 2000.0, place)
	}
	p.place("tools?sort=-tool")
	p.has("#tools tbody", "server-199/tool_24")
	p.has("#tools .more", "100 of 5,000")
	p.click("#tools [data-more]")
	p.wait(`document.querySelectorAll("#tools tbody tr").length === 300`)
	p.place("servers")
	p.has("#servers-more", "100 of 200")
	checkAccess(p, "many servers")
	p.place("tools")
	p.has("#tools .more", "100 of 5,000")
	checkAccess(p, "many tools")
	p.shortcut("/")
	p.press("server-007 tool_03")
	p.wait(`document.querySelectorAll("#tools tbody tr").length === 1`)
	p.press(kb.Enter)
	p.has("#tool-title", "tool_03")
}

// The overview of many servers has those in trouble, and leads to all.
func TestOverview_of_many_servers(t *testing.T) {
	c := newClient(t)
	for i := range 20 {
		register(t, c, inMemory(fmt.Sprintf("server-%02d", i), mcptest.Script{}))
	}
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#fleet", "No server is in trouble.")
	evicted(t, c, "lost")
	p.wait(`document.querySelectorAll("#server-rows .row").length === 1`)
	p.has("#servers-note", "21 servers, 1 not ready")
	p.click("#servers-all a")
	p.hash("#/servers")
	require.Len(t, rows(p), 21)
}
