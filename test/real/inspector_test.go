//go:build real

package real

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/gatewaytest"
)

// MCP Inspector in a browser renders the user interfaces of two servers behind mcpvisor run --mcp that have them at the
// same URI, each with the result of its own server. Playwright, behind a client, is the user of the browser.
func TestGateway_apps_in_the_Inspector(t *testing.T) {
	browser, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Skip("chromium-headless-shell is not installed")
	}
	dir, err := os.MkdirTemp("", "mv") // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	app := map[string]any{"command": "node", "args": []string{module(t, scope+"server-basic-vanillajs/dist/index.js"), "--stdio"}}
	config := filepath.Join(dir, "c.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"alpha": app, "beta": app}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, text, 0o600))
	program := buildCLI(t)
	p := gatewaytest.Start(t, program, config, dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	_, stderr, code := run(t, program, "--config", config, "--wait", "ready", "status", "--timeout", "60s") // the Inspector lists once
	require.Zero(t, code, stderr)
	page := startInspector(t, p.URL())

	c := newClient(t)
	user := playwrightWith(t, browser)
	require.NoError(t, c.Register(t.Context(), mcpvisor.ServerSpec{Name: "user", Stdio: user,
		Timeouts: mcpvisor.Timeouts{Start: patient.Start, List: patient.List, Call: 5 * time.Minute}}))
	shown := call(t, c, "user/browser_run_code_unsafe", map[string]any{"code": fmt.Sprintf(`async (page) => {
		page.setDefaultTimeout(60000);
		await page.goto(%q);
		await page.getByRole('switch').first().click({force: true});
		await page.getByText('Connected', {exact: true}).first().waitFor();
		for (let shown = false; !shown;) { // the tab is there before it reacts
			await page.getByText('Apps', {exact: true}).first().click({force: true});
			shown = await page.getByText('MCP Apps (2)').waitFor({timeout: 3000}).then(() => true, () => false);
		}
		const times = [];
		for (const n of [0, 1]) {
			await page.getByText('Get Time', {exact: true}).nth(n).click({force: true});
			const shown = page.frameLocator('iframe').frameLocator('iframe').getByText(/\d{4}-\d\d-\d\dT\d\d:/);
			await shown.waitFor();
			times.push('app ' + n + ' shows ' + await shown.innerText());
		}
		return times;
	}`, page)})
	require.Regexp(t, `app 0 shows \d{4}-`, shown)
	require.Regexp(t, `app 1 shows \d{4}-`, shown)
}

// startInspector starts the web client of MCP Inspector for a server, and returns the address of its page.
func startInspector(t *testing.T, server string) string {
	t.Helper()
	cmd := exec.Command(hostNode(t), module(t, "hosts/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--web", "--transport", "http", "--server-url", server)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "MCP_AUTO_OPEN_ENABLED=false", "MCP_INSPECTOR_SECRET_STORE=memory")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
	})
	address := regexp.MustCompile(`http://\S+MCP_INSPECTOR_API_TOKEN=\S+`)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "the Inspector has ended")
		if found := address.FindString(line); found != "" {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return found
		}
	}
}
