package browser

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
)

// Without an event stream the page asks for the states.
func TestPage_without_a_stream(t *testing.T) {
	c, g := newClient(t), new(gate)
	s := serve(t, c, func(next http.Handler) http.Handler { g.next = next; return g })
	p := newPage(t, s.URL, prefix+"/")
	p.allow("503")
	p.allow("ERR_")
	p.has("#link", "live")
	g.closed.Store(true)
	s.CloseClientConnections()
	p.has("#link", "reconnecting")
	require.Eventually(t, func() bool { return g.refused.Load() > 0 }, patience, time.Millisecond)
	register(t, c, hostile("[]", nil))
	p.has("#server-rows", "evil")
}

// A fragment that cannot be decoded is the name of no server.
func TestPage_with_a_malformed_fragment(t *testing.T) {
	p := newPage(t, serve(t, newClient(t), nil).URL, prefix+"/")
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.origin+prefix+"/#/s/%E0"))
	p.has("#detail", "No server of that name is registered.")
	p.has("#link", "live")
}

// Characters that turn the direction of a text are shown as what they are, and the text of a
// server is apart from what follows.
func TestPage_shows_bidi_controls(t *testing.T) {
	c := newClient(t)
	register(t, c, hostile(`[{"name":"read_\u202etxt.elif","description":"safe \u202eevil","inputSchema":{"type":"object","properties":{"t":{"type":"array","default":["\u202e"]}}}}]`, nil))
	p := newPage(t, serve(t, c, nil, web.Controls()).URL, prefix+"/")
	p.openTool("read_%E2%80%AEtxt.elif")
	require.NotContains(t, eval[string](p, `document.body.innerText`), "\u202e")
	p.has("#detail .name", `read_\u202etxt.elif`)
	p.has("#detail .primary", `Call read_\u202etxt.elif`)
	require.Equal(t, "isolate", eval[string](p, `getComputedStyle(document.querySelector("#detail table .name")).unicodeBidi`))
	require.Contains(t, eval[string](p, `document.querySelector("#detail textarea").value`), "\u202e", "a default is not changed")
}

// A catalog that takes long is fetched once.
func TestPage_fetches_a_slow_catalog_once(t *testing.T) {
	c := newClient(t)
	register(t, c, hostile("["+toolJSON("a", `{"type":"object"}`)+"]", nil))
	var fetches, statuses atomic.Int64
	release := make(chan struct{})
	s := serve(t, c, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/evil/tools"):
				fetches.Add(1)
				select {
				case <-release:
				case <-r.Context().Done():
				}
			case strings.HasSuffix(r.URL.Path, "/calls"):
				statuses.Add(1)
			}
			h.ServeHTTP(w, r)
		})
	})
	p := newPage(t, s.URL, prefix+"/")
	// The browser itself holds back a second request for the same address, so the page counts.
	eval[bool](p, `(window.asked = 0, window.ask = fetch, window.fetch = (path, options) => { asked += path.endsWith("/evil/tools"); return ask(path, options); }, location.hash = "#/s/evil", true)`)
	require.Eventually(t, func() bool { return fetches.Load() > 0 }, patience, time.Millisecond)
	polls := statuses.Load()
	require.Eventually(t, func() bool { return statuses.Load() >= polls+3 }, patience, time.Millisecond)
	require.Equal(t, 1, eval[int](p, `asked`))
	close(release)
	p.wait(`document.querySelector("#detail tr[data-key='evil/a']")`)
}

// The form of a tool stays as long as its schema: calls of the tool do not build it again,
// another schema does.
func TestToolForm_follows_its_schema(t *testing.T) {
	var second atomic.Bool
	before := hostile("["+toolJSON("t", properties(`{"old":{"type":"string"}}`))+"]", nil)
	after := hostile("["+toolJSON("t", properties(`{"new":{"type":"string"}}`))+"]", nil).InMemory.Serve
	c, first := newClient(t), before.InMemory.Serve
	before.InMemory.Serve = func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, log io.Writer) error {
		if second.Load() {
			return after(ctx, in, out, log)
		}
		return first(ctx, in, out, log)
	}
	register(t, c, before)
	p := newPage(t, serve(t, c, nil, web.Controls()).URL, prefix+"/")
	p.openTool("t")
	eval[bool](p, `(window.made = 0, window.make = document.createElement.bind(document), document.createElement = (tag) => { made += tag === "label"; return make(tag); }, true)`)
	require.Equal(t, `{"old":"x"}`, p.typed(map[string]string{"old": "x"}))
	p.wait(`document.querySelector("#detail tr.chosen td:nth-child(3)")?.innerText === "1"`)
	require.Zero(t, eval[int](p, `made`))
	require.Equal(t, "x", eval[string](p, `document.querySelector("form [data-name=old]").value`))
	second.Store(true)
	require.NoError(t, c.Restart(t.Context(), "evil"))
	p.wait(`document.querySelector("form [data-name=new]")`)
	require.Equal(t, `{"new":"y"}`, p.typed(map[string]string{"new": "y"}))
}
