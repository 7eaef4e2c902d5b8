// Package presets has the entries of well-known MCP servers, so that `mcpvisor add NAME` is
// enough for them.
package presets

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
)

// Preset is one well-known server.
type Preset struct {
	// Name is the name on the command line.
	Name string
	// Summary says what the server does, in a few words.
	Summary string
	// Args are the arguments that it takes, as in "DIRECTORY...". Empty for none.
	Args string
	// Variables are the environment variables that must be set.
	Variables []string
	// Package is what npx or uvx runs; empty for an address.
	Package string

	runner string // "npx" or "uvx"
	before string // comes before the arguments
	paths  bool   // the arguments are paths
	least  int    // how many arguments it needs
	url    string
	auth   bool   // the user authorizes it in a browser
	token  string // the variable of its token
}

func npx(name, pkg, summary string) Preset {
	return Preset{Name: name, Summary: summary, Package: pkg, runner: "npx"}
}

func uvx(name, pkg, summary string) Preset {
	return Preset{Name: name, Summary: summary, Package: pkg, runner: "uvx"}
}

// oauth is a preset of an address that the user authorizes in a browser.
func oauth(name, url, summary string) Preset {
	return Preset{Name: name, Summary: summary, url: url, auth: true}
}

var table = func() []Preset {
	filesystem := npx("filesystem", "@modelcontextprotocol/server-filesystem", "read and change files below directories")
	filesystem.Args, filesystem.paths, filesystem.least = "DIRECTORY...", true, 1
	git := uvx("git", "mcp-server-git", "read and change a git repository")
	git.Args, git.paths, git.least, git.before = "REPOSITORY", true, 1, "--repository"
	return []Preset{
		filesystem,
		npx("memory", "@modelcontextprotocol/server-memory", "a knowledge graph that outlives the conversation"),
		npx("everything", "@modelcontextprotocol/server-everything", "every feature of MCP, for tries"),
		npx("sequential-thinking", "@modelcontextprotocol/server-sequential-thinking", "thinking in steps that can be revised"),
		npx("playwright", "@playwright/mcp", "a browser"),
		npx("chrome-devtools", "chrome-devtools-mcp", "Chrome, with its developer tools"),
		npx("context7", "@upstash/context7-mcp", "documentation of libraries"),
		uvx("fetch", "mcp-server-fetch", "fetch a page as Markdown"),
		git,
		uvx("time", "mcp-server-time", "the time in any zone"),
		{Name: "github", Summary: "GitHub's own server", url: "https://api.githubcopilot.com/mcp/", token: "GITHUB_TOKEN", Variables: []string{"GITHUB_TOKEN"}}, //nolint:gosec // the name of a variable
		{Name: "deepwiki", Summary: "questions about public repositories", url: "https://mcp.deepwiki.com/mcp"},
		oauth("linear", "https://mcp.linear.app/mcp", "issues of Linear"),
		oauth("notion", "https://mcp.notion.com/mcp", "pages of Notion"),
		oauth("sentry", "https://mcp.sentry.dev/mcp", "errors of Sentry"),
	}
}()

func All() []Preset { return slices.Clone(table) }

func Names() (names []string) {
	for _, p := range table {
		names = append(names, p.Name)
	}
	return names
}

func Find(name string) (Preset, bool) {
	i := slices.IndexFunc(table, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, false
	}
	return table[i], true
}

// Authorizes reports whether the user has to authorize the server with `mcpvisor authorize`.
func (p Preset) Authorizes() bool { return p.auth }

// Entry makes the entry of the server. Paths among the arguments become absolute, with
// home for ~, because the server may be started elsewhere.
func (p Preset) Entry(args []string, home string) (configfile.Object, error) {
	switch {
	case len(args) < p.least:
		return nil, fmt.Errorf("preset %s needs %s; write for instance: mcpvisor add %s %s", p.Name, p.Args, p.Name, strings.TrimSuffix(strings.ToLower(p.Args), "..."))
	case len(args) > p.least && !strings.HasSuffix(p.Args, "..."):
		return nil, fmt.Errorf("preset %s takes %s; to run a command of your own, write it after --", p.Name, takes(p.Args))
	}
	if p.url != "" {
		entry := configfile.Object{{Key: "url", Value: p.url}}
		switch {
		case p.auth:
			entry.Set("auth", true)
		case p.token != "":
			entry.Set("headers", configfile.Object{{Key: "Authorization", Value: "Bearer ${" + p.token + "}"}})
		}
		return entry, nil
	}
	words := []string{p.Package}
	if p.runner == "npx" {
		words = []string{"-y", p.Package}
	}
	if p.before != "" {
		words = append(words, p.before)
	}
	for _, arg := range args {
		if p.paths {
			path, err := absolute(arg, home)
			if err != nil {
				return nil, err
			}
			arg = strings.ReplaceAll(path, "${", "$${")
		}
		words = append(words, arg)
	}
	return configfile.Object{{Key: "command", Value: p.runner}, {Key: "args", Value: words}}, nil
}

func takes(args string) string {
	if args == "" {
		return "no arguments"
	}
	return "one " + args
}

// absolute makes a path absolute. A shell has replaced ~ already, unless it was quoted.
func absolute(path, home string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = home + path[1:]
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("the current directory is not known; write %s as a full path: %w", path, err)
	}
	return abs, nil
}
