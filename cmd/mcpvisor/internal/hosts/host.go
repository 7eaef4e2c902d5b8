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
)

// Host is a program that has a file with MCP servers.
type Host struct {
	// ID is the name on the command line, as in "claude-desktop".
	ID   string
	Name string

	// user are the files of the user, and project those of a project, whether they exist or
	// not.
	user, project func(Environment) []string
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
		user: func(e Environment) []string { return []string{e.appDir("Claude", "claude_desktop_config.json")} }},
	{ID: "claude-code", Name: "Claude Code", list: "mcpServers", fixed: object{{Key: "type", Value: "stdio"}}, read: readClaudeCode, convert: withMilliseconds,
		user: func(e Environment) []string {
			if e.ClaudeConfig != "" {
				return []string{filepath.Join(e.ClaudeConfig, ".claude.json")}
			}
			return []string{e.home(".claude.json")}
		},
		project: func(e Environment) []string { return []string{e.project(".mcp.json")} }},
	{ID: "cursor", Name: "Cursor", list: "mcpServers", read: readMember("mcpServers"), convert: common,
		user:    func(e Environment) []string { return []string{e.home(".cursor", "mcp.json")} },
		project: func(e Environment) []string { return []string{e.project(".cursor", "mcp.json")} }},
	{ID: "vscode", Name: "VS Code", list: "servers", fixed: object{{Key: "type", Value: "stdio"}}, read: readVSCode, convert: common,
		user: func(e Environment) (files []string) {
			for _, edition := range []string{"Code", "Code - Insiders", "VSCodium"} {
				files = append(files, e.appDir(edition, "User", "mcp.json"), e.appDir(edition, "User", "settings.json"))
			}
			return files
		},
		project: func(e Environment) []string {
			return []string{e.project(".vscode", "mcp.json"), e.project(".vscode", "settings.json")}
		}},
	{ID: "codex", Name: "Codex", read: readCodex, convert: codex, noVariables: true,
		user: func(e Environment) []string {
			if e.CodexHome != "" {
				return []string{filepath.Join(e.CodexHome, "config.toml")}
			}
			return []string{e.home(".codex", "config.toml")}
		},
		project: func(e Environment) []string { return []string{e.project(".codex", "config.toml")} }},
	{ID: "gemini", Name: "Gemini CLI", list: "mcpServers", read: readMember("mcpServers"), convert: gemini, bareVariables: true,
		user:    func(e Environment) []string { return []string{e.home(".gemini", "settings.json")} },
		project: func(e Environment) []string { return []string{e.project(".gemini", "settings.json")} }},
	// zed.dev/docs/ai/mcp shows "command", "args", "env", "url" and "headers" with plain values,
	// and names no variable. Issue 60459 of zed-industries/zed: "sent to the server verbatim".
	{ID: "zed", Name: "Zed", list: "context_servers", fixed: object{{Key: "source", Value: "custom"}}, read: readMember("context_servers"), convert: zed, noVariables: true,
		user:    func(e Environment) []string { return []string{e.zedDir()} },
		project: func(e Environment) []string { return []string{e.project(".zed", "settings.json")} }},
	{ID: "windsurf", Name: "Windsurf", list: "mcpServers", read: readMember("mcpServers"), convert: common,
		user: func(e Environment) []string { return []string{e.home(".codeium", "windsurf", "mcp_config.json")} }},
	// opencode.ai/docs/mcp-servers; {env:NAME} is its variable, so ${ is text.
	{ID: "opencode", Name: "OpenCode", list: "mcp", fixed: object{{Key: "type", Value: "local"}}, argv: true, read: readOpenCode, convert: openCode, noVariables: true,
		user: func(e Environment) []string {
			return []string{e.xdg("opencode", "opencode.json"), e.xdg("opencode", "opencode.jsonc")}
		},
		project: func(e Environment) []string {
			return []string{e.project("opencode.json"), e.project("opencode.jsonc"), e.project(".opencode", "opencode.json"), e.project(".opencode", "opencode.jsonc")}
		}},
	// block.github.io/goose/docs/guides/config-files
	{ID: "goose", Name: "goose", read: readGoose, convert: goose, importOnly: true,
		user: func(e Environment) []string {
			if e.OS == "windows" {
				return []string{e.appDir("Block", "goose", "config", "config.yaml")}
			}
			return []string{e.xdg("goose", "config.yaml")}
		}},
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
	add := func(paths func(Environment) []string, project bool) {
		if paths == nil {
			return
		}
		for _, path := range paths(e) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				found = append(found, Source{Host: h, Path: path, Project: project})
			}
		}
	}
	add(h.user, false)
	add(h.project, true)
	return found
}

// Paths returns where the host keeps its files, whether they exist or not.
func (h Host) Paths(e Environment) (paths []string) {
	for _, files := range []func(Environment) []string{h.user, h.project} {
		if files != nil {
			paths = append(paths, files(e)...)
		}
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

// appDir is where applications keep their settings: %APPDATA%, Application Support, or
// the XDG directory.
func (e Environment) appDir(parts ...string) string {
	var dir string
	switch e.OS {
	case "windows":
		dir = cmp.Or(e.AppData, filepath.Join(e.Home, "AppData", "Roaming"))
	case "darwin":
		dir = filepath.Join(e.Home, "Library", "Application Support")
	default:
		return e.xdg(parts...)
	}
	return filepath.Join(append([]string{dir}, parts...)...)
}

// xdg is a path below the XDG directory for configuration.
func (e Environment) xdg(parts ...string) string {
	dir := cmp.Or(e.XDGConfig, filepath.Join(e.Home, ".config"))
	return filepath.Join(append([]string{dir}, parts...)...)
}

func (e Environment) home(parts ...string) string {
	return filepath.Join(append([]string{e.Home}, parts...)...)
}

func (e Environment) project(parts ...string) string {
	return filepath.Join(append([]string{e.Dir}, parts...)...)
}

// zedDir is where Zed keeps its settings: like other programs on Windows, and like those
// of Unix everywhere else.
func (e Environment) zedDir() string {
	if e.OS == "windows" {
		return e.appDir("Zed", "settings.json")
	}
	if e.OS == "darwin" {
		return e.home(".config", "zed", "settings.json")
	}
	return e.xdg("zed", "settings.json")
}
