package browser

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor/mcptest"
)

// screenshots is the folder for screenshots; empty means that none are made:
//
//	go test ./... -run Screenshots -screenshots ../../docs/images
var screenshots = flag.String("screenshots", "", "write the screenshots of the documentation into this folder")

// widths are those of the screenshots.
var widths = flag.String("widths", documentationWidth, "widths of the screenshots, with commas between them")

const documentationWidth = "1280"

// browser is the program that shows the page; empty if no browser is installed.
var browser = findBrowser()

// tests are those of the package, and the browser that they share.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	if shared.end != nil {
		shared.end()
	}
	return code
}

func TestMain(m *testing.M) {
	mcptest.Main()
	flag.Parse()
	if browser == "" {
		if os.Getenv("MCPVISOR_BROWSER") == "must" {
			fmt.Fprintln(os.Stderr, "no browser: install chromium-headless-shell (apt-get install chromium-headless-shell), or set MCPVISOR_BROWSER to a path")
			os.Exit(1)
		}
		fmt.Println("skipped: chromium-headless-shell is not installed; MCPVISOR_BROWSER=must makes that an error")
		os.Exit(0)
	}
	goleak.VerifyTestMain(tests{m})
}

// findBrowser returns the path in MCPVISOR_BROWSER, or that of an installed browser.
func findBrowser() string {
	if path := os.Getenv("MCPVISOR_BROWSER"); path != "" && path != "must" {
		return path
	}
	for _, name := range []string{"chromium-headless-shell", "chrome-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
