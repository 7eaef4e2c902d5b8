package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web"
)

// The tree of the page is the tree of the groups, with the servers of no group behind it. A server that sleeps, waits or
// is stopped has not failed. A group that has failed is one entry of what needs attention.
func TestGroups(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.SetGroups(t.Context(), []mcpvisor.Group{
		{Name: "shop", Members: []string{"db", "front"}},
		{Name: "front", Members: []string{"api", "ui"}, Strategy: supervisor.OneForAll, Intensity: supervisor.Intensity{Window: time.Hour}, WhenSpent: supervisor.SpentEvict},
	}))
	for _, name := range []string{"db", "api", "ui", "lazy", "after"} {
		spec := inMemory(name, mcptest.Script{})
		spec.Policy = supervisor.Retry(3, time.Millisecond)
		switch name {
		case "lazy":
			spec.Start = mcpvisor.StartLazy
		case "after":
			spec.After, spec.StartSupervised = []string{"db"}, true
		}
		require.NoError(t, c.Register(t.Context(), spec))
	}
	require.NoError(t, c.WaitReady(t.Context(), "db", "api", "ui", "after"))
	// The order of the page is given to the client here, whatever the handler answers.
	s := serve(t, c, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, what, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/servers/"), "/")
			switch {
			case r.Method != http.MethodPost || !found || what == "restart":
				next.ServeHTTP(w, r)
				return
			case what == "stop":
				require.NoError(t, c.Stop(r.Context(), name))
			case what == "start":
				require.NoError(t, c.Start(r.Context(), name))
			}
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"server":"` + name + `"}`))
		})
	}, web.WithControls())
	p := newPage(t, s.URL, prefix+"/")
	p.has("#attention", "Nothing. 4 ready, 1 at rest.")
	tree := func(want string) {
		t.Helper()
		p.wait(`(() => { const text = (ul) => [...ul.children].filter((li) => li.matches(".group, :has(> a)")).map((li) => li.querySelector(".name").textContent + (li.matches(".group") && li.querySelector("ul") ? "(" + text(li.querySelector("ul")) + ")" : "")).join(" "); return text(document.getElementById("tree")) === "` + want + `"; })()`)
	}
	tree("shop(db front(api ui)) after lazy")
	p.has(`#tree [data-key="front"] .group-head`, "one for all")
	p.has(`#tree [data-key="lazy"]`, "asleep")
	p.has(`#server-rows [data-key="lazy"]`, "tools")
	for _, look := range looks(t) {
		p.media(look.scheme, look.width)
		checkAccess(p, "groups, "+look.suffix)
		p.shot("groups-" + look.suffix)
	}
	eval[bool](p, `(location.hash = "#/s/lazy", true)`)
	p.has("#detail .calm", "it starts when it is wanted")
	p.has("#detail", "echo")
	p.wait(`!document.querySelector("#detail [data-key=why].alert")`)

	eval[bool](p, `(location.hash = "#/s/db", true)`)
	p.has("#detail .facts", "shop")
	p.wait(`(document.querySelector("#detail button[data-act=stop]")?.click(), true)`)
	p.has("#answer", "db is stopped.")
	p.has("#detail", "An operator has stopped it. A reload leaves it stopped")
	require.NoError(t, c.Restart(t.Context(), "after"))
	eval[bool](p, `(location.hash = "#/s/after", true)`)
	p.has("#detail .calm", "It waits for db.")
	p.has(`#tree [data-key="after"]`, "for db")
	checkAccess(p, "a server that waits")
	eval[bool](p, `(location.hash = "#/", true)`)
	p.has(`#server-rows [data-key="after"] .why`, "waits for db")
	eval[bool](p, `(location.hash = "#/s/db", true)`)
	p.has("#detail h1", "db")
	p.wait(`(document.querySelector("#detail button[data-act=start]")?.click(), true)`)
	p.has(`#tree [data-key="after"]`, "ready")

	_, err := c.CallTool(t.Context(), "api/crash", nil)
	require.Error(t, err)
	eval[bool](p, `(location.hash = "#/", true)`)
	p.has("#attention .alert", `group "front" is evicted: "api" failed`)
	p.has("#events", "front has failed")
	p.has(`#tree [data-key="front"] .group-head`, "given up")
	require.Equal(t, 1, eval[int](p, `document.querySelectorAll("#attention .alerts .alert.bad").length`))
	checkAccess(p, "a group that has failed")
	p.wait(`(document.querySelector("#attention button[data-act=start]")?.click(), true)`)
	p.has(`#tree [data-key="front"] .group-head`, "ready")
	tree("shop(db front(api ui)) after lazy")
	eval[bool](p, `(document.getElementById("filter").value = "api", document.getElementById("filter").dispatchEvent(new Event("input")), true)`)
	tree("shop(front(api))")
}
