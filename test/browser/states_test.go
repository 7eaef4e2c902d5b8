package browser

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// shot writes a picture with -screenshots, if -widths asks for other ones than those of the
// documentation.
func (p *page) shot(name string) {
	p.t.Helper()
	if *screenshots == "" || *widths == documentationWidth {
		return
	}
	require.NoError(p.t, os.MkdirAll(*screenshots, 0o755))
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o644))
}

// registerStates adds a server in each state that lasts.
func registerStates(t *testing.T, c *facade.Client) {
	t.Helper()
	says := func(text string) mcptest.Script {
		return mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: text}, {At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 1}}}
	}
	refusing := mcptest.NewHTTP(mcptest.Script{})
	t.Cleanup(refusing.Close)
	refusing.Refuse(http.StatusUnauthorized)
	for name, spec := range map[string]mcpvisor.ServerSpec{
		"connecting":   {Stdio: installed(t, "mcp-server-slow", mcptest.Script{StartDelay: time.Hour}), Timeouts: mcpvisor.Timeouts{Start: time.Hour}},
		"ready":        {Stdio: installed(t, "mcp-server-files", mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "serving /srv/orders/incoming and /srv/orders/archive over stdio"}}})},
		"backoff":      {Stdio: installed(t, "mcp-server-postgres", says("FATAL: password authentication failed for user \"orders\" at db.internal:5432")), Policy: supervisor.Retry(5, time.Hour, supervisor.WithMaxDelay(time.Hour))},
		"parked":       {Stdio: installed(t, "mcp-server-search", says("Error: connect ECONNREFUSED 10.0.0.7:9200")), Policy: supervisor.Retry(1, time.Millisecond, supervisor.WithParking(time.Hour))},
		"unauthorized": {HTTP: &mcpvisor.HTTP{URL: refusing.URL, Auth: &oauth.Config{}}},
		"evicted":      {Stdio: installed(t, "mcp-server-browser", says("Error: browserType.launch: Executable doesn't exist at /opt/browsers/chromium-1187/chrome-linux/chrome"))},
	} {
		spec.Name, spec.StartSupervised, spec.Origin = name, true, ".mcp.json:4"
		require.NoError(t, c.Register(t.Context(), spec))
	}
	for _, state := range []supervisor.State{supervisor.StateReady, supervisor.StateConnecting, supervisor.StateBackoff, supervisor.StateParked, supervisor.StateUnauthorized, supervisor.StateEvicted} {
		require.Eventually(t, func() bool { s, _ := c.ServerStatus(string(state)); return s.State == state }, patience, time.Millisecond, string(state))
	}
	for _, tool := range []string{"echo", "fail"} {
		_, err := c.CallTool(t.Context(), "ready/"+tool, map[string]any{"text": "x"})
		require.NoError(t, err)
	}
	_, err := c.CallTool(t.Context(), "parked/echo", nil)
	require.Error(t, err)
}

// Every state is shown as wide as the window is, on a phone, too: nothing that a reader needs is
// beyond its edge. With -screenshots it makes a picture of each.
func TestStates_fit_the_window(t *testing.T) {
	c := newClient(t)
	registerStates(t, c)
	since := time.Now().Add(-time.Minute)
	config := func() []api.Attention {
		return []api.Attention{{Kind: "config", Severity: api.SeverityError, Text: "config .mcp.json:31: server \"mail\": timeouts.call: \"60\" has no unit", Action: "correct the entry; the server runs as before", Since: &since}}
	}
	s := serve(t, c, nil, web.WithControls(), web.WithTitle("orders-agent"), web.WithProgram(api.Program{Attention: config}))
	p := newPage(t, s.URL, prefix+"/")
	p.allow("ERR_")
	fits := func(where string) {
		t.Helper()
		wide := eval[string](p, `[...document.querySelectorAll("html, .scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => (e.getAttribute("aria-label") ?? e.tagName) + " is " + e.scrollWidth + " wide in " + e.clientWidth).join("; ")`)
		if wide != "" {
			t.Log(eval[string](p, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + "." + e.className + " " + e.textContent.slice(0, 30)).slice(0,12).join("\n")`))
		}
		require.Empty(t, wide, where)
	}
	states := []string{"connecting", "ready", "backoff", "parked", "unauthorized", "evicted"}
	does := map[string]string{"backoff": "restart it to try at once", "parked": "restart it to try at once", "unauthorized": "Authorize the client", "evicted": "Fix the cause"}
	looks := []look{{"light", "light-390", 390}, {"dark", "dark-390", 390}, {"light", "light-1400", 1400}, {"dark", "dark-1400", 1400}}
	if *screenshots == "" { // a scheme moves nothing
		looks = []look{looks[0], looks[3]}
	}
	for _, look := range looks {
		p.media(look.scheme, look.width)
		p.open(prefix + "/")
		p.has("#link", "live")
		for _, state := range states {
			p.has("#server-rows", state)
		}
		p.has("#calls", "not sent")
		fits("all " + look.suffix)
		p.shot("states-all-" + look.suffix)
		eval[bool](p, `(document.getElementById("calls").scrollIntoView(), true)`)
		p.shot("states-all-below-" + look.suffix)
		for _, place := range []string{"servers", "calls", "clients", "tools", "resources", "events"} {
			p.place(place)
			p.wait(`!document.querySelector("#overview").innerText.includes("Loading…")`)
			fits(place + " " + look.suffix)
			p.shot("states-" + place + "-" + look.suffix)
		}
		for _, state := range states {
			p.open(prefix + "/#/s/" + state)
			p.has("#detail h1", state)
			p.has("#detail", "Configured in")
			p.has("#detail", "Events")
			if state == "ready" {
				p.has("#detail", "echo")
			}
			if text := does[state]; text != "" {
				p.has("#detail .alert .do", text)
			}
			require.Equal(t, state == "unauthorized", eval[bool](p, `document.querySelector("#detail .title").innerText.includes("mcpvisor authorize unauthorized")`), state)
			fits(state + " " + look.suffix)
			p.shot("states-" + state + "-" + look.suffix)
			eval[bool](p, `(scrollTo(0, 700), true)`)
			p.shot("states-" + state + "-below-" + look.suffix)
		}
	}
	p.open(prefix + "/")
	p.has("#server-rows", "evicted")
	p.has("#attention button", "Restart")
	end(s)
	p.has("#loss", "was lost at")
	p.wait(`!document.querySelector("#attention button")`) // no operator would restart it
	eval[bool](p, `Boolean(location.hash = "#/s/evicted")`)
	p.has("#detail h1", "evicted")
	require.Zero(t, eval[int](p, `document.querySelectorAll("#detail .title button").length`))
	eval[bool](p, `Boolean(location.hash = "#/")`)
	for _, look := range looks {
		p.media(look.scheme, look.width)
		fits("lost " + look.suffix)
		p.shot("states-lost-" + look.suffix)
	}
}
