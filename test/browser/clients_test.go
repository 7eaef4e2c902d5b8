package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/web"
)

// The page shows who uses the gateway, what they do and may call, and who made a call.
func TestClients(t *testing.T) {
	c := newClient(t)
	for _, name := range []string{"files", "search"} {
		register(t, c, inMemory(name, mcptest.Script{}))
	}
	_, err := c.CallTool(t.Context(), "files/echo", map[string]any{"text": "x"}, relay.WithClientName("claude-code 2.1.4"))
	require.NoError(t, err)
	hosts := clients.New()
	offered := clients.Offer{Servers: []string{"files", "search"}, Tools: 42, Withheld: 1}
	hosts.OfferTo("", func() clients.Offer { return offered })
	p := newPage(t, serve(t, c, nil, web.WithControls(), web.WithGateway(hosts.Status)).URL, prefix+"/")
	p.has("#calls", "for claude-code 2.1.4")
	p.place("clients")
	p.has("#clients", "None within 15 minutes.")

	claude := hosts.Open("a", clients.Info{Name: "claude-code", Version: "2.1.4", Protocol: "2025-11-25", Transport: "stdio"})
	claude.Begin(true)
	claude.ShowCopies(func() []string { return []string{"browser", "files"} })
	hosts.Open("b", clients.Info{Principal: "ci", Protocol: "2026-07-28", Transport: "http"}).Stream(1)
	failing := hosts.Open("c", clients.Info{Name: strings.Repeat("a-very-long-name-", 6), Version: "1", Principal: "somebody", Protocol: "2025-06-18", Transport: "http"})
	failing.Begin(true)
	failing.Done(clients.OutcomeFailed)
	hosts.Refuse(clients.RefusedToken)
	for _, shown := range []string{"claude-code 2.1.4", "stdio, 2025-11-25", "own 2 servers: browser, files", "1 in flight", "1 stream", "ci", "3 within 15 minutes", "HTTP requests refused: token 1"} {
		p.has("#clients", shown)
	}
	eval[bool](p, `(document.querySelector("#clients summary").click(), true)`)
	p.has("#clients details", "42")
	p.has("#clients details", "files search")
	for _, look := range looks(t) {
		p.media(look.scheme, look.width)
		p.wait(`[...document.querySelectorAll("#clients .scroll")].every((e) => e.scrollWidth <= e.clientWidth)`)
		checkAccess(p, "clients, "+look.suffix)
		if *screenshots != "" {
			eval[bool](p, `(document.querySelector("#clients").scrollIntoView(), scrollBy(0, -90), true)`)
			shoot(p, "clients-"+look.suffix)
		}
	}
	claude.Done(clients.OutcomeAnswered)
	p.has("#clients", "idle")

	opened := claude.OpenTask("files", "reindex")
	p.has("#clients", "1 open task")
	eval[bool](p, `([...document.querySelectorAll("#clients summary")].find((s) => s.textContent == "Open tasks").click(), true)`)
	p.has("#clients details[open]", "reindex")
	for _, look := range looks(t) {
		p.media(look.scheme, look.width)
		p.wait(`[...document.querySelectorAll("#clients .scroll")].every((e) => e.scrollWidth <= e.clientWidth)`)
		checkAccess(p, "tasks of clients, "+look.suffix)
	}
	opened.End()
	p.wait(`!document.querySelector("#clients").textContent.includes("open task")`)
}
