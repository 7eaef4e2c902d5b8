// Package hosts reads the MCP servers that other hosts are configured with: Claude Desktop,
// Claude Code, Cursor, VS Code, Codex, Gemini CLI, Zed, Windsurf, OpenCode and goose. It makes entries of
// mcpvisor's configuration of them. It writes no file.
package hosts

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Host is a program that has a file with MCP servers.
type Host struct {
	// ID is the name on the command line, as in "claude-desktop".
	ID   string
	Name string

	// user are the files of the user, and project those of a project, whether they exist or
	// not. Each begins with a place of Environment.places.
	user, project []string
	// read finds the entries in the text of a file.
	read func(text []byte, e Environment) ([]raw, []input, error)
	// convert turns an entry into one of mcpvisor. Notes say what else there is to know.
	convert func(entry object) (converted object, notes []string, err error)
	// bareVariables says that $VAR is a variable there, not only ${VAR}.
	bareVariables bool
	// noVariables says that the host replaces none, so that ${ is text there.
	noVariables bool

	// list is the key below which the host lists its servers, and fixed what an entry has beside
	// "command" and "args", before them.
	list  string
	fixed object
	// argv says that "command" is a list of the program and its arguments.
	argv bool
	// importOnly says that [Host.PlanInstall] does not know the form of the file.
	importOnly bool
}

// All are the hosts, in the order in which they are read.
func All() []Host { return slices.Clone(table) }

// ByID returns a host by its name on the command line.
func ByID(id string) (Host, bool) {
	i := slices.IndexFunc(table, func(h Host) bool { return h.ID == id })
	if i < 0 {
		return Host{}, false
	}
	return table[i], true
}

var table = []Host{
	{ID: "claude-desktop", Name: "Claude Desktop", list: "mcpServers", read: readMember("mcpServers"), convert: common, noVariables: true,
		user: []string{"app/Claude/claude_desktop_config.json"}},
	{ID: "claude-code", Name: "Claude Code", list: "mcpServers", fixed: object{{Key: "type", Value: "stdio"}}, read: readClaudeCode, convert: withMilliseconds,
		user: []string{"claude/.claude.json"}, project: []string{"project/.mcp.json"}},
	{ID: "cursor", Name: "Cursor", list: "mcpServers", read: readMember("mcpServers"), convert: common,
		user: []string{"home/.cursor/mcp.json"}, project: []string{"project/.cursor/mcp.json"}},
	{ID: "vscode", Name: "VS Code", list: "servers", fixed: object{{Key: "type", Value: "stdio"}}, read: readVSCode, convert: common,
		user: []string{"app/Code/User/mcp.json", "app/Code/User/settings.json", "app/Code - Insiders/User/mcp.json", "app/Code - Insiders/User/settings.json",
			"app/VSCodium/User/mcp.json", "app/VSCodium/User/settings.json"},
		project: []string{"project/.vscode/mcp.json", "project/.vscode/settings.json"}},
	{ID: "codex", Name: "Codex", read: readCodex, convert: codex, noVariables: true,
		user: []string{"codex/config.toml"}, project: []string{"project/.codex/config.toml"}},
	{ID: "gemini", Name: "Gemini CLI", list: "mcpServers", read: readMember("mcpServers"), convert: gemini, bareVariables: true,
		user: []string{"home/.gemini/settings.json"}, project: []string{"project/.gemini/settings.json"}},
	// zed.dev/docs/ai/mcp shows "command", "args", "env", "url" and "headers" with plain values,
	// and names no variable. Issue 60459 of zed-industries/zed: "sent to the server verbatim".
	{ID: "zed", Name: "Zed", list: "context_servers", fixed: object{{Key: "source", Value: "custom"}}, read: readMember("context_servers"), convert: zed, noVariables: true,
		user: []string{"zed/settings.json"}, project: []string{"project/.zed/settings.json"}},
	{ID: "windsurf", Name: "Windsurf", list: "mcpServers", read: readMember("mcpServers"), convert: common,
		user: []string{"home/.codeium/windsurf/mcp_config.json"}},
	// opencode.ai/docs/mcp-servers; {env:NAME} is its variable, so ${ is text.
	{ID: "opencode", Name: "OpenCode", list: "mcp", fixed: object{{Key: "type", Value: "local"}}, argv: true, read: readOpenCode, convert: openCode, noVariables: true,
		user:    []string{"xdg/opencode/opencode.json", "xdg/opencode/opencode.jsonc"},
		project: []string{"project/opencode.json", "project/opencode.jsonc", "project/.opencode/opencode.json", "project/.opencode/opencode.jsonc"}},
	// block.github.io/goose/docs/guides/config-files
	{ID: "goose", Name: "goose", read: readGoose, convert: goose, importOnly: true, user: []string{"goose/config.yaml"}},
}

// Source is a file of a host that exists.
type Source struct {
	Host Host
	Path string
	// Project says that the file belongs to the project and not to the user.
	Project bool
}

// Find returns the files of a host that exist.
func (h Host) Find(e Environment) (found []Source) {
	for i, path := range h.Paths(e) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			found = append(found, Source{Host: h, Path: path, Project: i >= len(h.user)})
		}
	}
	return found
}

// Paths returns where the host keeps its files, whether they exist or not: those of the user first.
func (h Host) Paths(e Environment) (paths []string) {
	places := e.places()
	for _, file := range slices.Concat(h.user, h.project) {
		place, rest, _ := strings.Cut(file, "/")
		paths = append(paths, filepath.Join(places[place], filepath.FromSlash(rest)))
	}
	return paths
}

// Environment is what the places of the hosts' files depend on. A test sets it, so that
// the paths of every system are tested on one.
type Environment struct {
	// OS is the system, as runtime.GOOS names it.
	OS string
	// Home is the user's home directory.
	Home string
	// AppData is %APPDATA% on Windows.
	AppData string
	// XDGConfig is $XDG_CONFIG_HOME; empty for ~/.config.
	XDGConfig string
	// ClaudeConfig is $CLAUDE_CONFIG_DIR, where Claude Code keeps its file; empty for Home.
	ClaudeConfig string
	// CodexHome is $CODEX_HOME; empty for ~/.codex.
	CodexHome string
	// Dir is the directory of the project.
	Dir string
}

// Here returns the environment of this process, with its working directory as project.
func Here() (Environment, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Environment{}, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return Environment{}, err
	}
	return Environment{OS: runtime.GOOS, Home: home, AppData: os.Getenv("APPDATA"), XDGConfig: os.Getenv("XDG_CONFIG_HOME"),
		ClaudeConfig: os.Getenv("CLAUDE_CONFIG_DIR"), CodexHome: os.Getenv("CODEX_HOME"), Dir: dir}, nil
}

// places are the directories in which hosts keep their files.
func (e Environment) places() map[string]string {
	xdg := cmp.Or(e.XDGConfig, filepath.Join(e.Home, ".config"))
	app, zed, goose := xdg, filepath.Join(xdg, "zed"), filepath.Join(xdg, "goose")
	switch e.OS {
	case "windows":
		app = cmp.Or(e.AppData, filepath.Join(e.Home, "AppData", "Roaming"))
		zed, goose = filepath.Join(app, "Zed"), filepath.Join(app, "Block", "goose", "config")
	case "darwin":
		app = filepath.Join(e.Home, "Library", "Application Support")
		zed = filepath.Join(e.Home, ".config", "zed")
	}
	return map[string]string{"app": app, "xdg": xdg, "home": e.Home, "project": e.Dir, "zed": zed, "goose": goose,
		"claude": cmp.Or(e.ClaudeConfig, e.Home), "codex": cmp.Or(e.CodexHome, filepath.Join(e.Home, ".codex"))}
}
