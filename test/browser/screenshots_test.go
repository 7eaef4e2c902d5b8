package browser

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
)

// TestScreenshots makes the pictures of the documentation, with -screenshots FOLDER, and
// those of other widths with -widths 1400,390.
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
