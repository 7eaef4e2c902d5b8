package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// oneByOne shows single events.
func oneByOne(p *page) {
	p.t.Helper()
	eval[bool](p, `(document.querySelector("#events [data-act=single]").click(), true)`)
}

const crashes = 500

// registerDay adds a server in a crash loop, and five changes of other servers before and during
// it.
func registerDay(t *testing.T, c *facade.Client) {
	t.Helper()
	crash := func(times int) {
		for range times {
			_, err := c.CallTool(t.Context(), "loop/crash", map[string]any{"code": 1})
			require.ErrorIs(t, err, mcpvisor.ErrCrashed)
			require.NoError(t, c.WaitReady(t.Context(), "loop"))
		}
	}
	loop := inMemory("loop", mcptest.Script{})
	loop.Policy = supervisor.Retry(supervisor.Unlimited, time.Millisecond, supervisor.WithMaxDelay(time.Millisecond))
	register(t, c, loop)
	register(t, c, inMemory("files", mcptest.Script{}))
	register(t, c, inMemory("old", mcptest.Script{}))
	crash(10)
	require.NoError(t, c.Unregister(t.Context(), "old"))
	require.NoError(t, c.Unregister(t.Context(), "files"))
	register(t, c, inMemory("files", mcptest.Script{Version: "2"}))
	evicted(t, c, "search")
	parked := process("mail", mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "Error: connect ECONNREFUSED 10.0.0.7:25"}, {At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 1}}})
	parked.StartSupervised, parked.Policy = true, supervisor.Retry(1, time.Millisecond, supervisor.WithParking(time.Hour))
	require.NoError(t, c.Register(t.Context(), parked))
	require.Eventually(t, func() bool {
		s, _ := c.ServerStatus("mail")
		return s.State == supervisor.StateParked
	}, patience, time.Millisecond)
	register(t, c, inMemory("web", mcptest.Script{}))
	crash(crashes - 10)
}

// What has changed is one line for each change, although one server has crashed hundreds of times
// since; kinds and servers can be selected, and single events can be unfolded.
func TestEvents_of_a_day(t *testing.T) {
	c := newClient(t)
	registerDay(t, c)
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.has("#events", "ended 500 times")
	p.place("events")
	p.has("#events", "old unregistered")
	text := eval[string](p, `document.querySelector("#events ol").innerText`)
	for _, change := range []string{"old unregistered", "files registered again, with another specification", "search evicted", "mail parked", "web registered", "ready again"} {
		require.Contains(t, strings.Join(strings.Fields(text), " "), change)
	}
	require.LessOrEqual(t, eval[int](p, `document.querySelectorAll("#events ol.events > li").length`), 15)
	p.has("#events summary", "the last 20 events")
	eval[bool](p, `(document.querySelector("#events summary").click(), true)`)
	p.has("#events .kept", "down")

	choose := func(pick, value string) {
		eval[bool](p, `(() => { const s = document.querySelector("#events [data-pick=`+pick+`]"); s.value = "`+value+`"; s.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	}
	rows := func() int { return eval[int](p, `document.querySelectorAll("#events ol.events > li").length`) }
	choose("group", "given_up")
	require.Equal(t, 2, rows())
	choose("server", "mail")
	require.Equal(t, 1, rows())
	p.has("#events", "ECONNREFUSED 10.0.0.7:25")
	choose("group", "")
	p.has("#events", "mail registered")
	choose("server", "old")
	p.has("#events", "old unregistered")
	choose("server", "")

	_, err := c.CallTool(t.Context(), "loop/crash", map[string]any{"code": 1})
	require.Error(t, err)
	p.has("#events", "ended 501 times")
	for _, look := range looks(t) {
		p.media(look.scheme, look.width)
		checkAccess(p, "events, "+look.suffix)
		if *screenshots != "" {
			eval[bool](p, `(document.querySelector("#events").scrollIntoView(), true)`)
			shoot(p, "day-"+look.suffix)
		}
	}
	p.open(prefix + "/#/s/loop")
	p.has("#detail [data-key=events]", "ended 501 times")
	require.NotContains(t, eval[string](p, `document.querySelector("#detail [data-key=events] ol").innerText`), "files")
}

// What only screen readers see makes no page longer than it is.
func TestPage_ends_with_its_footer(t *testing.T) {
	c := newClient(t)
	register(t, c, inMemory("files", mcptest.Script{}))
	for range 60 {
		_, err := c.CallTool(t.Context(), "files/echo", map[string]any{"text": "a"})
		require.NoError(t, err)
	}
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.has("body", "files/echo")
	require.True(t, eval[bool](p, `document.documentElement.scrollHeight <= Math.max(innerHeight, document.querySelector("footer").getBoundingClientRect().bottom + scrollY + 1)`))
}

// A tool that its server has added within the last hour says so where the tools are listed.
func TestTools_added_lately_are_marked(t *testing.T) {
	c := newClient(t)
	register(t, c, inMemory("files", mcptest.Script{}))
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/#/s/files")
	p.has("#detail [data-key=catalog]", "echo")
	require.Zero(t, eval[int](p, `document.querySelectorAll("#detail .fresh").length`))
	_, err := c.CallTool(t.Context(), "files/add_tool", map[string]any{"name": "search"})
	require.NoError(t, err)
	p.has("#detail tr:has(.fresh)", "search")
	require.Equal(t, 1, eval[int](p, `document.querySelectorAll("#detail .fresh").length`))
}
