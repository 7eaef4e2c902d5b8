package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/retention"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// The page shows that a server was killed, and that it is ready again, without asking for the states
// by its clock: the event stream tells it. The log has how long that takes.
func TestKill_is_visible_at_once(t *testing.T) {
	const kills = 5
	c := newClient(t)
	spec := process("fs", mcptest.Script{})
	spec.Policy = supervisor.Retry(supervisor.Unlimited, time.Hour, supervisor.WithMaxDelay(time.Hour)) // it stays down until it is restarted
	register(t, c, spec)
	p := newTab(t, serve(t, c, nil).URL)
	p.first(`window.setInterval = () => 0`)
	p.open(prefix + "/")
	p.has("#link", "live")
	var took []time.Duration
	for range kills {
		p.has("#server-rows .state", "ready")
		events := c.Watch(t.Context(), mcpvisor.EventDown)
		status, _ := c.ServerStatus("fs")
		require.NoError(t, syscall.Kill(status.Session.PID, syscall.SIGKILL))
		down := <-events
		p.has("#server-rows .state", "backoff")
		took = append(took, time.Since(down.Time))
		require.NoError(t, c.Restart(t.Context(), "fs"))
	}
	slices.Sort(took)
	t.Logf("visible after %v, median of %v", took[kills/2], took)
	p.has("#server-rows .row", "fs")
	p.has("#events", "signal: killed")
	p.has("#attention", "fs")
}

// The form of a tool works without a pointer: from the filter to the server, to its tool,
// through the fields, to the result.
func TestToolForm_by_keyboard(t *testing.T) {
	c := newClient(t)
	schema := `{"type":"object","required":["path","mode"],"properties":{
		"path":{"type":"string","description":"Where to look."},
		"mode":{"type":"string","enum":["names","sizes"]},
		"depth":{"type":"integer","minimum":0,"maximum":9},
		"hidden":{"type":"boolean"},
		"tags":{"type":"array","items":{"type":"string"}},
		"filter":{"type":"object"}}}`
	register(t, c, process("files", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "list", Description: "Lists.", InputSchema: []byte(schema)}, {Name: "other"}}}))
	register(t, c, process("zebra", mcptest.Script{}))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.has("#server-rows", "zebra")
	tabTo := func(expression string) {
		t.Helper()
		for range 200 {
			if eval[bool](p, `Boolean(document.activeElement?.matches(`+fmt.Sprintf("%q", expression)+`))`) {
				return
			}
			p.press(kb.Tab)
		}
		require.Fail(t, "not reached by Tab", expression)
	}
	p.shortcut("/")
	p.press("file")
	p.wait(`document.querySelectorAll("#server-rows .row").length === 1`)
	tabTo("#server-rows a.name")
	p.press(kb.Enter)
	p.has("#detail h1", "files")
	p.wait(`document.querySelector("#detail tr[data-key='files/list'] a")`)
	tabTo("tr[data-key='files/list'] a")
	p.press(kb.Enter)
	p.wait(`document.activeElement?.id === "tool-title"`)

	tabTo("form [data-name=path]")
	p.press(kb.Enter) // required fields are missing
	p.has("form", "path is required")
	p.has("form", "mode is required")
	require.Equal(t, "path", eval[string](p, `document.activeElement.dataset.name`), "the focus is where the first mistake is")
	require.Equal(t, "true", eval[string](p, `document.querySelector("form [data-name=mode]").getAttribute("aria-invalid")`))
	p.press("/tmp", kb.Tab, "sizes", kb.Tab, "12")
	p.press(kb.Enter)
	p.has("form", "depth: at most 9")
	require.Equal(t, "depth", eval[string](p, `document.activeElement.dataset.name`), "and where the next one is")
	p.press(kb.Backspace, kb.Tab, "true", kb.Tab, kb.Enter, "a") // Enter on the button that adds an item goes to it
	tabTo("form [aria-label='Add to tags']")
	p.press(kb.Enter, "b")
	tabTo("form [data-name=filter]")
	p.press(`{"n":`)
	tabTo("form .primary")
	p.press(kb.Enter)
	p.has("form", "filter: not valid JSON")
	p.press(kb.End, "1}")
	tabTo("form .primary")
	p.press(kb.Enter)
	p.has("form .result", "Call it?")
	p.press(kb.Enter) // the focus stayed on the button
	p.has("form .result", "ok in")
	result := eval[string](p, `document.querySelector("form .result pre").innerText`)
	require.JSONEq(t, `{"path":"/tmp","mode":"sizes","depth":1,"hidden":true,"tags":["a","b"],"filter":{"n":1}}`, result)
	p.has("#detail tr[data-key='files/list']", "1")
	require.Equal(t, "/tmp", eval[string](p, `document.querySelector("form [data-name=path]").value`), "what was typed stays")
	p.press(kb.Escape)
	require.Equal(t, "files", eval[string](p, `document.querySelector("#detail h1").innerText`), "Escape in a field does not leave the page")
	tabTo("a[href='#/']")
}

// Nothing needs attention while a server starts, and that does not mean that it is ready. A start that
// takes ten seconds would need it, so the page is told of none.
func TestAttention_while_servers_start(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	slow := process("slow", mcptest.Script{StartDelay: time.Hour})
	slow.StartSupervised, slow.Timeouts.Start = true, time.Hour
	register(t, c, slow)
	p := newPage(t, serve(t, c, calmly).URL, prefix+"/")
	p.has("#attention", "Nothing yet. 1 server starting, 1 ready.")
	require.NoError(t, c.Unregister(t.Context(), "slow"))
	p.has("#attention", "Nothing. All servers are ready.")
}

// calmly takes what needs attention out of the status.
func calmly(next http.Handler) http.Handler {
	return altered(next, "/api/status", func(status map[string]any) { status["attention"] = []any{} })
}

// altered changes the answers under a path.
func altered(next http.Handler, path string, change func(answer map[string]any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, path) {
			next.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Accept-Encoding")
		recorded, answer := httptest.NewRecorder(), map[string]any{}
		next.ServeHTTP(recorded, r)
		if err := json.Unmarshal(recorded.Body.Bytes(), &answer); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		change(answer)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// The same trouble of several servers is one entry, whose button restarts them all.
func TestAttention_restart_all(t *testing.T) {
	c := newClient(t)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		spec := process(name, mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 3}}})
		spec.StartSupervised, spec.Policy = true, supervisor.NoRetry()
		register(t, c, spec)
	}
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.has("#attention", "3 servers: ")
	p.has("#attention", "exit status 3; given up")
	require.Equal(t, 1, eval[int](p, `document.querySelectorAll("#attention li").length`))
	require.True(t, eval[bool](p, `document.querySelector("button[data-act=restart-all]").click() === undefined`))
	p.has("#answer", "0 of 3 servers are ready again. ")
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { st, _ := c.ServerStatus(name); return st.Epoch != 2 })
	}, 30*time.Second, time.Millisecond)
}

// No column prints over another one, in any state and width, and a phone shows which tool was called.
func TestColumns_do_not_overlap(t *testing.T) {
	c := newClient(t)
	refusing := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(refusing.Close)
	refusing.Refuse(http.StatusUnauthorized)
	spec := mcpvisor.ServerSpec{Name: "locked", StartSupervised: true, Policy: supervisor.NoRetry(), HTTP: &mcpvisor.HTTP{URL: refusing.URL, Auth: &oauth.Config{}}}
	register(t, c, spec)
	register(t, c, process("fs", mcptest.Script{Tools: []mcptest.ToolDef{{Name: "list_directory", Text: "done"}}}))
	_, err := c.CallTool(t.Context(), "fs/list_directory", nil)
	require.NoError(t, err)
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#server-rows", "unauthorized")
	for _, width := range []int64{1400, 1000, 800, 390} {
		p.media("light", width)
		p.wait(`innerWidth === ` + fmt.Sprint(width))
		require.True(t, eval[bool](p, `[...document.querySelectorAll("#server-rows .state")].every((s) => {
			const state = s.getBoundingClientRect(), name = s.closest(".row").querySelector(".name").getBoundingClientRect();
			return state.right <= name.left || name.right <= state.left || state.bottom <= name.top || name.bottom <= state.top;
		})`), "width %d", width)
		require.True(t, eval[bool](p, `[...document.querySelectorAll("#calls td.grow")].every((c) => c.scrollWidth <= c.clientWidth)`), "width %d", width)
		require.Equal(t, "visible", eval[string](p, `getComputedStyle(document.querySelector("#server-rows .row")).contentVisibility`), "a picture of the page shows every row")
	}
}

// What was not read yet is not said to be empty.
func TestPage_while_it_loads(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	_, err := c.CallTool(t.Context(), "fs/echo", map[string]any{"text": "x"})
	require.NoError(t, err)
	read := make(chan struct{})
	p := newPage(t, serve(t, c, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if slices.ContainsFunc([]string{"/api/calls", "/api/events/summaries", "/stream"}, func(path string) bool { return strings.HasSuffix(r.URL.Path, path) }) {
				select {
				case <-read:
				case <-r.Context().Done():
				}
			}
			next.ServeHTTP(w, r)
		})
	}).URL, prefix+"/")
	for _, id := range []string{"calls", "events", "tools"} {
		p.place(map[string]string{"tools": "tools"}[id])
		p.has("#"+id, "Loading…")
	}
	require.False(t, eval[bool](p, `/No (call|tool|event)/.test(document.body.innerText)`))
	close(read)
	p.has("#tools", "echo")
	p.place("")
	p.has("#calls", "ok")
	p.has("#events", "fs registered")
	p.open(prefix + "/#/s/fs")
	p.has("#detail", "Recent calls")
	p.has("#detail", "ok")
}

// The page of a server that is ready says what needs attention about it.
func TestWarnings_of_a_ready_server(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	_, err := c.CallTool(t.Context(), "fs/crash", nil)
	require.ErrorIs(t, err, mcpvisor.ErrCrashed)
	require.NoError(t, c.WaitReady(t.Context(), "fs"))
	p := newPage(t, serve(t, c, nil).URL, prefix+"/#/s/fs")
	p.has("#detail .badge, #detail .title", "ready")
	p.has("#detail .alert", "1 call of unknown outcome in the last 10 min: crash")
	p.has("#detail .alert .do", "Check whether they had an effect")
}

// The time of what was not today has its day, and all events that are kept can be shown.
func TestEvents_of_another_day(t *testing.T) {
	c := newClient(t)
	spec := process("fs", mcptest.Script{})
	register(t, c, spec)
	for range 30 {
		require.NoError(t, c.Unregister(t.Context(), "fs"))
		register(t, c, spec)
	}
	p := newPage(t, serve(t, c, nil).URL, prefix+"/")
	p.has("#events", "registered again, with another specification")
	p.place("events")
	oneByOne(p)
	p.has("#events .more", "60 of ")
	require.Equal(t, 60, eval[int](p, `document.querySelectorAll("#events li").length`))
	eval[bool](p, `(document.querySelector("#events [data-more]").click(), true)`)
	p.wait(`document.querySelectorAll("#events li").length > 110`) // they come in several parts
	p.has("#events", "Show the first 60")
	eval[bool](p, `(import("./format.js").then((f) => { window.times = [f.at("2020-02-03T12:00:00Z").innerText, f.at(new Date().toISOString()).innerText]; }), true)`)
	p.wait(`window.times`)
	require.Regexp(t, `^3 Feb \d\d:\d\d:\d\d$`, eval[string](p, `times[0]`))
	require.Regexp(t, `^\d\d:\d\d:\d\d$`, eval[string](p, `times[1]`))
}

// When the process ends, a banner says so, and nothing is said to be ready.
func TestPage_after_the_end_of_the_process(t *testing.T) {
	c := newClient(t)
	register(t, c, process("fs", mcptest.Script{}))
	s := serve(t, c, nil)
	p := newPage(t, s.URL, prefix+"/")
	p.allow("ERR_")
	p.has("#attention", "Nothing. All servers are ready.")
	end(s)
	p.has("#loss", "was lost at")
	p.has("#attention", "Unknown since the connection was lost.")
	require.Contains(t, eval[string](p, `getComputedStyle(document.querySelector(".frame")).filter`), "grayscale")
	require.True(t, eval[bool](p, `!document.body.innerText.includes("All servers are ready")`))
}

// The server dies in a call. The form stays with what was typed and what became of the call.
func TestToolForm_stays_when_its_server_dies(t *testing.T) {
	c := newClient(t)
	spec := process("fs", mcptest.Script{
		Tools:  []mcptest.ToolDef{{Name: "echo", InputSchema: []byte(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
		Faults: []mcptest.Fault{{At: mcptest.StageCall, Do: mcptest.ActionDie}}})
	spec.Policy = supervisor.Retry(supervisor.Unlimited, time.Hour, supervisor.WithMaxDelay(time.Hour))
	register(t, c, spec)
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/#/s/fs/echo")
	p.allow("502")
	p.has("form", "path")
	eval[bool](p, `(document.querySelector("form [data-name=path]").value = "/orders/4711", true)`)
	p.submitted()
	p.has("form .result", "may have been executed")
	p.has("#detail .title", "backoff")
	p.has("#detail .card", "What you have typed stays.")
	p.has("#detail tr.unknown", "outcome unknown")
	require.Equal(t, "/orders/4711", eval[string](p, `document.querySelector("form [data-name=path]").value`))
	require.NoError(t, c.Restart(t.Context(), "fs"))
	p.has("#detail .title", "ready")
	require.Equal(t, "/orders/4711", eval[string](p, `document.querySelector("form [data-name=path]").value`))
	p.has("form .result", "may have been executed")
}

// Of 500 servers the page first paints those that are on the screen, from the status alone; all
// others, and what other requests read, come after it. The log has how long that takes.
func TestPaint_of_500_servers(t *testing.T) {
	c := newClient(t)
	for i := range 500 {
		register(t, c, mcpvisor.ServerSpec{Name: fmt.Sprintf("server-%03d", i), InMemory: mcptest.InMemory(mcptest.Script{NoResources: true, NoPrompts: true})})
	}
	p := newTab(t, serve(t, c, nil).URL)
	p.first(`(() => {
		window.setInterval = () => 0; // a slow machine may poll before it paints
		const asked = [], ask = fetch, count = (selector) => document.querySelectorAll(selector).length;
		window.fetch = (path, options) => { asked.push(path.split("?")[0]); return ask(path, options); };
		new MutationObserver(() => { // it is told at the end of the first frame
			window.painted ??= { asked: [...new Set(asked)].join(), rows: count("#server-rows .row"), tree: count("#tree > li"), elements: count("*") };
		}).observe(document, { subtree: true, attributeFilter: ["data-loaded"] });
	})()`)
	p.open(prefix + "/#/servers")
	require.Equal(t, "api/status", eval[string](p, `painted.asked`))
	require.Equal(t, 40, eval[int](p, `painted.rows`))
	require.Equal(t, 40, eval[int](p, `painted.tree`))
	require.Less(t, eval[int](p, `painted.elements`), 3000)
	p.wait(`performance.getEntriesByName("first servers").length > 0`)
	t.Logf("painted %d elements in %.0f ms", eval[int](p, `painted.elements`), eval[float64](p, `performance.getEntriesByName("first servers")[0].duration`))
	p.wait(`document.querySelectorAll("#server-rows .row").length === 100`)
	p.has("#servers-more", "100 of 500")
	p.wait(`document.querySelectorAll("#tree > li").length === 100`)
	p.has("#tree-more", "400 more")
}

// gate refuses event streams while it is closed, and drops those that are open.
type gate struct {
	next    http.Handler
	closed  atomic.Bool
	lastID  atomic.Value // of the last request for a stream
	opened  atomic.Int64
	refused atomic.Int64
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/stream") {
		if g.closed.Load() {
			http.Error(w, "closed by the test", http.StatusServiceUnavailable)
			g.refused.Add(1)
			return
		}
		g.lastID.Store(r.Header.Get("Last-Event-ID") + r.URL.RawQuery)
		g.opened.Add(1)
	}
	g.next.ServeHTTP(w, r)
}

// A page that was disconnected continues after the last event that it has: it shows what
// happened meanwhile, and says how much it lost of what is not kept.
func TestReconnect(t *testing.T) {
	c := newClient(t)
	small := mcpvisor.ServerSpec{Name: "small", InMemory: mcptest.InMemory(mcptest.Script{NoTools: true, NoResources: true, NoPrompts: true})}
	stays := mcpvisor.ServerSpec{Name: "stays", InMemory: mcptest.InMemory(mcptest.Script{})}
	stays.Policy = supervisor.Policy{StableAfter: time.Hour} // it has no event of its own meanwhile
	register(t, c, stays)
	g := new(gate)
	s := serve(t, c, func(next http.Handler) http.Handler { g.next = next; return g })
	p := newPage(t, s.URL, prefix+"/")
	p.allow("503")
	p.allow("ERR_")
	p.has("#events", "stays registered")
	p.place("events")
	oneByOne(p)
	p.has("#events", "stays ready")
	shown := `[...document.querySelectorAll("#events li")].map((li) => li.dataset.key).join()`

	// The browser reconnects by itself, with Last-Event-ID.
	before := c.Stats().Events
	p.wait(fmt.Sprintf(`document.querySelector("#events li").dataset.key === "%d"`, before))
	opened := g.opened.Load()
	s.CloseClientConnections()
	register(t, c, small)
	require.NoError(t, c.Unregister(t.Context(), "small"))
	after := c.Stats().Events
	p.has("#events", "small unregistered")
	p.wait(fmt.Sprintf(`%d === [...document.querySelectorAll("#events li")].filter((li) => Number(li.dataset.key) > %d).length`, after-before, before))
	require.Equal(t, opened+1, g.opened.Load())
	require.Regexp(t, fmt.Sprintf("^[0-9a-f]+-%dlast=400$", before), g.lastID.Load(), "the id names the process and the event")
	keys := strings.Split(eval[string](p, shown), ",")
	slices.Sort(keys)
	require.Equal(t, slices.Compact(slices.Clone(keys)), keys, "no event is shown twice")
	require.NotContains(t, eval[string](p, `document.querySelector("#events").innerText`), "lost")
	p.has("#link", "live")

	// A hidden page closes its stream, and continues when it is shown again.
	before = c.Stats().Events
	visible := func(state string) {
		eval[bool](p, `(Object.defineProperty(document, "hidden", { configurable: true, value: `+state+` }), document.dispatchEvent(new Event("visibilitychange")), true)`)
	}
	visible("true")
	p.has("#link", "paused")
	register(t, c, small)
	require.NoError(t, c.Unregister(t.Context(), "small"))
	visible("false")
	p.has("#link", "live")
	after = c.Stats().Events
	p.wait(fmt.Sprintf(`%d === [...document.querySelectorAll("#events li")].filter((li) => Number(li.dataset.key) > %d).length`, after-before, before))
	require.Equal(t, fmt.Sprintf("after=%d", before), g.lastID.Load())

	// A proxy that answers with 503 makes the browser give up; the page does not. What is
	// not kept any more is reported.
	g.closed.Store(true)
	s.CloseClientConnections()
	p.has("#link", "reconnecting")
	for range retention.Events {
		register(t, c, small)
		require.NoError(t, c.Unregister(t.Context(), "small"))
	}
	require.Eventually(t, func() bool { return g.refused.Load() > 0 }, patience, time.Millisecond)
	g.closed.Store(false)
	p.has("#link", "live")
	require.Equal(t, fmt.Sprintf("after=%d", after), g.lastID.Load())
	p.wait(fmt.Sprintf(`document.querySelector("#events li").dataset.key === "%d"`, c.Stats().Events))
	p.has("#events", "events lost")
}
