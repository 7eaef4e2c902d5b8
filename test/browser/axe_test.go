package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/web"
)

// axeFile is the accessibility checker, which npm installs; see run.
const axeFile = "node_modules/axe-core/axe.min.js"

// violation is one finding of axe.
type violation struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// checkAccess requires that axe finds nothing in what the page shows. Without axe it checks nothing.
func checkAccess(p *page, view string) {
	p.t.Helper()
	script, err := os.ReadFile(axeFile)
	if err != nil {
		if os.Getenv("MCPVISOR_BROWSER") == "must" {
			require.NoError(p.t, err, "run: npm ci")
		}
		p.t.Log("axe-core is not installed; run test/browser/run, or npm ci")
		return
	}
	p.do(chromedp.Evaluate[chromedp.Void](string(script)))
	result := eval[string](p, `axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations))`)
	var violations []violation
	require.NoError(p.t, json.Unmarshal([]byte(result), &violations))
	var text strings.Builder
	for _, v := range violations {
		fmt.Fprintf(&text, "%s (%s): %s\n", v.ID, v.Impact, v.Help)
		for _, n := range v.Nodes {
			fmt.Fprintf(&text, "    %.200s\n    %s\n", n.HTML, n.Summary)
		}
	}
	require.Empty(p.t, text.String(), view)
}

// axe finds nothing on any view, light and wide, dark and narrow.
func TestAccessibility(t *testing.T) {
	c := newClient(t)
	registerScene(t, c, true)
	p := newPage(t, serve(t, c, nil, web.WithControls()).URL, prefix+"/")
	for _, look := range []look{{"light", "", 1280}, {"dark", "", 400}} {
		p.media(look.scheme, look.width)
		view := fmt.Sprintf("%s, %d px", look.scheme, look.width)
		p.open(prefix + "/")
		p.has("#calls", "outcome unknown")
		checkAccess(p, "overview, "+view)
		for _, place := range []string{"servers", "calls", "clients", "tools", "resources", "events"} {
			p.place(place)
			p.wait(`!document.querySelector("#overview").innerText.includes("Loading…")`)
			checkAccess(p, place+", "+view)
		}
		p.open(prefix + "/#/s/filesystem/list_directory")
		p.wait(`document.querySelector("form button.primary")`)
		eval[bool](p, `(document.querySelector("form").requestSubmit(), true)`)
		p.has("form", "path is required")
		checkAccess(p, "form, "+view)
		p.open(prefix + "/#/s/postgres")
		p.has("#detail", "FATAL")
		checkAccess(p, "server in backoff, "+view)
	}
}
