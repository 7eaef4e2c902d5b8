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
	// Args are the paths that it takes, at least one, as in "DIRECTORY...". Empty for none.
	Args string
	// Summary says what the server does, in a few words.
	Summary string
	// Variables are the environment variables that must be set: of an address, the one with its token.
	Variables []string

	words []string // the program and its first arguments; nil for an address
	url   string
	auth  bool // the user authorizes it in a browser
}

func npx(pkg string) []string { return []string{"npx", "-y", pkg} }

var table = []Preset{
	{Name: "filesystem", Args: "DIRECTORY...", words: npx("@modelcontextprotocol/server-filesystem"), Summary: "read and change files below directories"},
	{Name: "memory", words: npx("@modelcontextprotocol/server-memory"), Summary: "a knowledge graph that outlives the conversation"},
	{Name: "everything", words: npx("@modelcontextprotocol/server-everything"), Summary: "every feature of MCP, for tries"},
	{Name: "sequential-thinking", words: npx("@modelcontextprotocol/server-sequential-thinking"), Summary: "thinking in steps that can be revised"},
	{Name: "playwright", words: npx("@playwright/mcp"), Summary: "a browser"},
	{Name: "chrome-devtools", words: npx("chrome-devtools-mcp"), Summary: "Chrome, with its developer tools"},
	{Name: "context7", words: npx("@upstash/context7-mcp"), Summary: "documentation of libraries"},
	{Name: "fetch", words: []string{"uvx", "mcp-server-fetch"}, Summary: "fetch a page as Markdown"},
	{Name: "git", Args: "REPOSITORY", words: []string{"uvx", "mcp-server-git", "--repository"}, Summary: "read and change a git repository"},
	{Name: "time", words: []string{"uvx", "mcp-server-time"}, Summary: "the time in any zone"},
	{Name: "github", url: "https://api.githubcopilot.com/mcp/", Variables: []string{"GITHUB_TOKEN"}, Summary: "GitHub's own server"},
	{Name: "deepwiki", url: "https://mcp.deepwiki.com/mcp", Summary: "questions about public repositories"},
	{Name: "linear", url: "https://mcp.linear.app/mcp", auth: true, Summary: "issues of Linear"},
	{Name: "notion", url: "https://mcp.notion.com/mcp", auth: true, Summary: "pages of Notion"},
	{Name: "sentry", url: "https://mcp.sentry.dev/mcp", auth: true, Summary: "errors of Sentry"},
}

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
	case len(args) == 0 && p.Args != "":
		return nil, fmt.Errorf("preset %s needs %s; write for instance: mcpvisor add %s %s", p.Name, p.Args, p.Name, strings.TrimSuffix(strings.ToLower(p.Args), "..."))
	case len(args) > 0 && p.Args == "", len(args) > 1 && !strings.HasSuffix(p.Args, "..."):
		return nil, fmt.Errorf("preset %s takes %s; to run a command of your own, write it after --", p.Name, takes(p.Args))
	}
	if p.url != "" {
		entry := configfile.Object{{Key: "url", Value: p.url}}
		switch {
		case p.auth:
			entry.Set("auth", true)
		case len(p.Variables) > 0:
			entry.Set("headers", configfile.Object{{Key: "Authorization", Value: "Bearer ${" + p.Variables[0] + "}"}})
		}
		return entry, nil
	}
	words := slices.Clone(p.words[1:])
	for _, arg := range args {
		path, err := absolute(arg, home)
		if err != nil {
			return nil, err
		}
		words = append(words, strings.ReplaceAll(path, "${", "$${"))
	}
	return configfile.Object{{Key: "command", Value: p.words[0]}, {Key: "args", Value: words}}, nil
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
