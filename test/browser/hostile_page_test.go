package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// A status that was refused, as when readers hold too much, is asked for again, though no
// event follows.
func TestPage_after_a_refused_status(t *testing.T) {
	c := newClient(t)
	register(t, c, hostile("[]", nil))
	var refused atomic.Int64
	s := serve(t, c, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/api/status") && refused.Add(1) <= 4 {
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	p := newTab(t, s.URL)
	p.allow("503")
	p.open(prefix + "/")
	p.has("#server-rows", "evil")
}

// A link with the token opens the page from a mail, a chat, or the page of another site, and
// the token leaves the address. The pages of other sites cannot act with its cookie.
func TestToken_by_a_link_of_another_site(t *testing.T) {
	c := newClient(t)
	register(t, c, hostile("[]", nil))
	s := serve(t, c, nil, web.WithToken("secret-secret"), web.WithControls())
	restart := s.URL + prefix + "/api/servers/evil/restart"
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<link rel=icon href="data:,"><a id=login href="%s/?token=secret-secret">login</a><a id=later href="%s/">later</a>
			<form id=act method=post enctype="text/plain" action="%s"></form>`, s.URL+prefix, s.URL+prefix, restart)
	}))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/" // another site than 127.0.0.1
	p := newTab(t, s.URL)
	p.allow(elsewhere)
	p.allow("401") // the form has no cookie
	p.allow("ERR_BLOCKED_BY_RESPONSE")
	follow := func(expression string) {
		t.Helper()
		p.do(chromedp.Navigate(elsewhere))
		eval[bool](p, expression)
	}
	follow(`(document.getElementById("login").click(), true)`)
	p.has("#server-rows", "evil")
	require.Equal(t, s.URL+prefix+"/", eval[string](p, `location.href`))
	require.Empty(t, eval[string](p, `document.cookie`), "no script reads it")
	follow(`(document.getElementById("later").click(), true)`)
	p.has("#server-rows", "evil")
	follow(`(document.getElementById("act").submit(), true)`)
	p.has("body", "error")
	follow(`fetch("` + restart + `", {method: "POST", mode: "no-cors", credentials: "include"}).then(() => true, () => true)`)
	status, _ := c.ServerStatus("evil")
	require.Zero(t, status.Restarts)
	require.EqualValues(t, 1, status.Epoch)
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
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
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
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	p.openTool("t")
	eval[bool](p, `(window.made = 0, window.make = document.createElement.bind(document), document.createElement = (tag) => { made += tag === "label"; return make(tag); }, true)`)
	require.Equal(t, `{"old":"x"}`, p.typed(map[string]string{"old": "x"}))
	p.wait(`document.querySelector("#detail tr.chosen td:nth-child(3)")?.innerText === "1"`)
	require.Zero(t, eval[int](p, `made`))
	require.Equal(t, "x", eval[string](p, `document.querySelector("form [data-name=old]").value`))
	second.Store(true)
	require.NoError(t, c.Restart(t.Context(), "evil"))
	p.has("#detail", "changed evil/t") // what it lists otherwise than before
	p.has("#detail", "started in")
	p.wait(`document.querySelector("form [data-name=new]")`)
	require.Equal(t, `{"new":"y"}`, p.typed(map[string]string{"new": "y"}))
}
