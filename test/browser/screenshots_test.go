package browser

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/web"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// TestScreenshots makes the pictures of the documentation, with -screenshots FOLDER, and
// those of other widths with -widths 1400,390. These are of all places, too, from head to foot.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no -screenshots")
	}
	require.NoError(t, os.MkdirAll(*screenshots, 0o755))
	healthy, trouble := newClient(t), newClient(t)
	registerScene(t, healthy, false)
	registerScene(t, trouble, true)
	well := newPage(t, serve(t, healthy, nil, web.WithControls(), web.WithTitle("orders-agent")).URL, prefix+"/")
	ill := newPage(t, serve(t, trouble, nil, web.WithControls(), web.WithTitle("orders-agent")).URL, prefix+"/")
	hosts := clients.New()
	hosts.OfferTo("", func() clients.Offer {
		return clients.Offer{Servers: []string{"filesystem", "github", "search"}, Tools: 42, Prompts: 2, Resources: 3}
	})
	hosts.Open("a", clients.Info{Name: "claude-code", Version: "2.1.4", Protocol: "2025-11-25", Transport: "stdio"}).Begin(true)
	hosts.Open("b", clients.Info{Principal: "ci", Profile: "reader", Protocol: "2026-07-28", Transport: "http"}).Stream(1)
	program := api.Program{Decide: func(string, bool, string) error { return nil }, Approvals: func() []api.Approval {
		return []api.Approval{{ID: "3f9a1c20b7", Client: "claude-code 2.1.4", Server: "filesystem", Tool: "write_file", Arguments: json.RawMessage(`{"path":"/srv/orders/README.md","show":"all"}`), Rule: "rule 2 (.mcp.json:40)", Asked: time.Now().Add(-time.Minute)}}
	}}
	places := newPage(t, serve(t, trouble, nil, web.WithControls(), web.WithTitle("orders-agent"), web.WithGateway(hosts.Status), web.WithProgram(program)).URL, prefix+"/")
	for _, look := range looks(t) {
		scheme, suffix := look.scheme, look.suffix
		well.media(scheme, look.width)
		well.open(prefix + "/")
		well.has("#calls", "ok")
		shoot(well, "web-healthy-"+suffix)
		well.open(prefix + "/#/s/filesystem/list_directory")
		well.wait(`document.querySelector("form [data-name=path]")`)
		eval[bool](well, `(document.querySelector("form [data-name=path]").value = "/srv/orders", true)`)
		well.submitted()
		well.has("form .result", "ok in")
		eval[bool](well, `(document.querySelector(".split").scrollIntoView(), scrollBy(0, -100), true)`)
		shoot(well, "web-tool-"+suffix)
		ill.media(scheme, look.width)
		ill.open(prefix + "/")
		ill.has("#calls", "outcome unknown")
		shoot(ill, "web-evicted-"+suffix)
		ill.open(prefix + "/#/s/postgres")
		ill.has("#detail", "FATAL")
		ill.has("#detail", "outcome unknown")
		shoot(ill, "web-backoff-"+suffix)
		if !strings.Contains(suffix, "-") {
			continue
		}
		places.media(scheme, look.width)
		for name, place := range map[string]string{"overview": "", "servers": "servers", "calls": "calls", "clients": "clients", "tools": "tools", "resources": "resources", "events": "events",
			"server": "s/filesystem", "trouble": "s/postgres", "tool": "s/github/search_code"} {
			places.open(prefix + "/#/" + place)
			places.has("#link", "live")
			places.wait(`!/Loading/.test(document.querySelector("main").innerText)`)
			picture, err := chromedp.Run(places.ctx, chromedp.FullScreenshot(100))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(*screenshots, "place-"+name+"-"+suffix+".png"), picture, 0o644))
		}
	}
}

// shoot makes a picture of what the page shows.
func shoot(p *page, name string) {
	p.t.Helper()
	p.has("#link", "live")
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o644))
}

// look is how a picture is taken.
type look struct {
	scheme, suffix string
	width          int64
}

// looks are both colour schemes in each of -widths. Pictures of the width of the documentation
// have none in their names.
func looks(t *testing.T) (all []look) {
	t.Helper()
	for text := range strings.SplitSeq(*widths, ",") {
		width, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		for _, scheme := range []string{"light", "dark"} {
			suffix := scheme
			if text != documentationWidth {
				suffix += "-" + text
			}
			all = append(all, look{scheme, suffix, width})
		}
	}
	return all
}
