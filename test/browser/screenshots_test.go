package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
)

// TestScreenshots makes the pictures of the documentation, with -screenshots FOLDER.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no -screenshots")
	}
	require.NoError(t, os.MkdirAll(*screenshots, 0o755))
	shoot := func(p *page, name string) {
		t.Helper()
		p.has("#link", "live")
		picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o644))
	}
	healthy, trouble := newClient(t), newClient(t)
	registerScene(t, healthy, false)
	registerScene(t, trouble, true)
	well := newPage(t, serve(t, healthy, nil, web.WithControls(), web.WithTitle("orders-agent")).URL, prefix+"/")
	ill := newPage(t, serve(t, trouble, nil, web.WithControls(), web.WithTitle("orders-agent")).URL, prefix+"/")
	for _, scheme := range []string{"light", "dark"} {
		well.media(scheme, 1280)
		well.open(prefix + "/")
		well.has("#calls", "ok")
		well.has("#tools", "list_directory")
		shoot(well, "web-healthy-"+scheme)
		well.open(prefix + "/#/s/filesystem/list_directory")
		well.wait(`document.querySelector("form [data-name=path]")`)
		eval[bool](well, `(document.querySelector("form [data-name=path]").value = "/srv/orders", document.querySelector("form").requestSubmit(), true)`)
		well.has("form .result", "ok in")
		eval[bool](well, `(document.querySelector(".split").scrollIntoView(), scrollBy(0, -100), true)`)
		shoot(well, "web-tool-"+scheme)
		ill.media(scheme, 1280)
		ill.open(prefix + "/")
		ill.has("#calls", "outcome unknown")
		ill.has("#tools", "list_directory")
		shoot(ill, "web-evicted-"+scheme)
		ill.open(prefix + "/#/s/postgres")
		ill.has("#detail", "FATAL")
		ill.has("#detail", "outcome unknown")
		shoot(ill, "web-backoff-"+scheme)
	}
}
