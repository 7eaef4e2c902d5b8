package display_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

func TestCommand(t *testing.T) {
	for line, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-filesystem /tmp":          "npx @modelcontextprotocol/server-filesystem",
		"/usr/local/bin/npx --yes some-server@1.2.3 --key SECRET":      "npx some-server@1.2.3",
		"npx -p @scope/tools serve":                                    "npx @scope/tools",
		"npx --package=@scope/tools serve":                             "npx @scope/tools",
		"npx":                                                          "npx",
		"npm exec -y -- server-x --port 1":                             "npm server-x",
		"npm start":                                                    "npm",
		"pnpm dlx server-x":                                            "pnpm server-x",
		"bunx server-x":                                                "bunx server-x",
		"uvx mcp-server-git --repository /x":                           "uvx mcp-server-git",
		"uvx --python 3.12 --from mcp-tools serve":                     "uvx mcp-tools",
		"uvx --from git+https://user:SECRET@host/x.git?q=SECRET serve": "uvx git+https://host/x.git",
		"uv --directory /srv/weather run weather.py":                   "uv weather.py",
		"uv run --with mcp /srv/weather/server.py":                     "uv weather/server.py",
		"uv tool run mcp-server-git":                                   "uv mcp-server-git",
		"docker run -i --rm -e API_KEY=SECRET -v /a:/b mcp/fetch x":    "docker mcp/fetch",
		"docker run --rm -it --name x ghcr.io/github/server:latest":    "docker ghcr.io/github/server:latest",
		"docker ps":                   "docker",
		"podman container run -i img": "podman img",
		"node /opt/weather/dist/index.js --token SECRET": "node weather/dist/index.js",
		"node --require x.js server-weather.mjs":         "node server-weather.mjs",
		"node -e SECRET":                                 "node -e",
		"/usr/bin/python3.12 -u /srv/mcp/git_server.py":  "python3 git_server.py",
		"python -m mcp_server_git --repository x":        "python -m mcp_server_git",
		"python -c SECRET":                               "python -c",
		"java -Xmx1g -jar /opt/x/server.jar":             "java x/server.jar",
		"bash /srv/mcp/start.sh SECRET":                  "bash mcp/start.sh",
		"cmd /c npx -y server-x":                         "npx server-x",
		"cmd.exe /d /c npx.cmd -y server-x":              "npx server-x",
		"env KEY=SECRET npx -y server-x":                 "npx server-x",
		"deno run --allow-net jsr:@scope/server":         "deno jsr:@scope/server",
		"/opt/server/bin/weather --key SECRET":           "/opt/server/bin/weather",
		`C:\tools\node.exe C:\mcp\weather\index.js`:      "node weather/index.js",
		"go run ./cmd/server":                            "go ./cmd/server",
	} {
		words := strings.Fields(line)
		require.Equal(t, want, display.Command(words[0], words[1:]), line)
	}
	require.Equal(t, "npx server-x", display.Command("sh", []string{"-c", "exec npx -y server-x --key SECRET"}))
	require.Equal(t, "bash -lc", display.Command("bash", []string{"-lc", "export KEY=SECRET; run"}))
	require.NotContains(t, display.Command("npx", []string{"a\x1b\nb"}), "\x1b")
	require.LessOrEqual(t, len(display.Command("npx", []string{strings.Repeat("x", 10_000)})), 130)
	require.Equal(t, "sh", display.Command("sh", nil))
}

func TestPackageRunner(t *testing.T) {
	for line, want := range map[string]string{
		"npx -y some-server": "npx", "/usr/bin/npx some-server": "npx", `C:\nodejs\npx.cmd -y some-server`: "npx", "cmd /c npx -y some-server": "npx",
		"env A=b uvx some-server": "uvx", "bunx some-server": "bunx", "pnpm dlx some-server": "pnpm", "npm exec some-server": "npm", "yarn dlx some-server": "yarn",
		"uv tool run some-server": "uv", "pipx run some-server": "pipx", "npx": "npx",
		"node npx.js": "", "docker run npx": "", "npm run start": "npm", "python -m npx": "", "./npx-server": "", "": "",
	} {
		words := append(strings.Fields(line), "")
		require.Equal(t, want, display.PackageRunner(words[0], words[1:len(words)-min(1, len(words)-1)]), line)
	}
	require.Equal(t, "npx", display.PackageRunner("sh", []string{"-c", "exec npx -y some-server"}))
}
