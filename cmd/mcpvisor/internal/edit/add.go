package edit

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/presets"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/config"
)

// Add is `mcpvisor add`.
type Add struct {
	targetFlags
	Env     []string `help:"Environment variable of the server, as NAME=value. NAME alone takes the value from your environment at each start." sep:"none" placeholder:"NAME[=VALUE]"`
	Header  []string `help:"Header of requests to an address, as 'Name: value'. Variables in it are replaced at each start." sep:"none" placeholder:"HEADER"`
	Cwd     string   `help:"Working directory of the program." placeholder:"DIR"`
	Preset  string   `help:"Use this preset under another name." placeholder:"PRESET"`
	Replace bool     `help:"Replace the entry of that name."`
	List    bool     `help:"List the presets, and add nothing."`

	Name string   `arg:"" optional:"" help:"Name of the server, or of a preset: ${presets}." complete:"preset"`
	Args []string `arg:"" optional:"" help:"The address of the server; the arguments of a preset; or -- and a command with its arguments."`
}

// Help is the end of `mcpvisor add --help`.
func (*Add) Help() string {
	return `Examples:

  mcpvisor add filesystem ~/notes
  mcpvisor add github
  mcpvisor add notes -- ./notes-server --verbose
  mcpvisor add search https://search.example.com/mcp --header 'Authorization: Bearer ${SEARCH_TOKEN}'`
}

func (cmd *Add) Run(inv *cli.Invocation) error {
	if cmd.List {
		return listPresets(inv)
	}
	if cmd.Name == "" {
		return cli.UsageError("name the server to add, as in: mcpvisor add filesystem ~/notes; mcpvisor add --list lists the presets")
	}
	if err := mcpvisor.CheckServerName(cmd.Name); err != nil {
		return cli.UsageError("%v", err)
	}
	entry, preset, err := cmd.entry(inv)
	if err != nil {
		return err
	}
	replaced := false
	f, err := editTarget(inv, cmd.targetFlags, func(f *configfile.File) error {
		if _, _, replaced = f.Entry(cmd.Name); replaced && !cmd.Replace {
			return cli.UsageError("%s has an entry %q already; choose another name, or --replace it", place(f, cmd.Name), cmd.Name)
		}
		return f.Set(cmd.Name, entry)
	})
	if err != nil {
		return err
	}
	warnEntry(inv, f, cmd.Name)
	if inv.JSON {
		tellRun(inv)
		_, line, _ := f.Entry(cmd.Name)
		return cli.PrintJSON(inv.Out, map[string]any{"name": cmd.Name, "file": f.Path(), "line": line, "entry": entry})
	}
	verb := "added to"
	if replaced {
		verb = "replaced in"
	}
	if _, err := fmt.Fprintf(inv.Out, "%s %s %s\n", cmd.Name, verb, table.OneLine(place(f, cmd.Name), table.MaxText)); err != nil {
		return err
	}
	tellRun(inv)
	if preset.Authorizes() {
		inv.Note("next: mcpvisor authorize %s", cmd.Name)
	} else {
		inv.Note("next: mcpvisor status %s", cmd.Name)
	}
	return nil
}

// entry makes the entry from the arguments: a command, an address, or a preset.
func (cmd *Add) entry(inv *cli.Invocation) (configfile.Object, presets.Preset, error) {
	var entry configfile.Object
	var preset presets.Preset
	switch {
	case inv.Words != nil:
		if len(inv.Words) == 0 || len(cmd.Args) > len(inv.Words) || cmd.Preset != "" {
			return nil, preset, cli.UsageError("write the name, then --, then the command, as in: mcpvisor add notes -- ./notes-server --verbose")
		}
		entry = commandEntry(inv.Words)
	case len(cmd.Args) == 1 && isAddress(cmd.Args[0]) && cmd.Preset == "":
		entry = configfile.Object{{Key: "url", Value: cmd.Args[0]}}
	default:
		if err := cmd.checkAddress(); err != nil {
			return nil, preset, err
		}
		var known bool
		name := cmd.Name
		if cmd.Preset != "" {
			name = cmd.Preset
		}
		if preset, known = presets.Find(name); !known {
			if cmd.Preset == "" && len(cmd.Args) > 0 {
				entry = commandEntry(cmd.Args)
				break
			}
			return nil, preset, cli.UsageError("there is no preset %q (%s); for a server of your own write an address, or -- and a command", name, cli.NameOneOf(name, presets.Names()))
		}
		home, _ := os.UserHomeDir()
		var err error
		if entry, err = preset.Entry(cmd.Args, home); err != nil {
			return nil, preset, cli.UsageError("%v", err)
		}
	}
	return cmd.addFlags(inv, entry, preset)
}

func (cmd *Add) addFlags(inv *cli.Invocation, entry configfile.Object, preset presets.Preset) (configfile.Object, presets.Preset, error) {
	_, program := entry.Get("command").(string)
	switch {
	case !program && len(cmd.Env) > 0:
		return nil, preset, cli.UsageError("--env is for a program, and %s is an address; use --header", cmd.Name)
	case !program && cmd.Cwd != "":
		return nil, preset, cli.UsageError("--cwd is for a program, and %s is an address; leave it out", cmd.Name)
	case program && len(cmd.Header) > 0:
		return nil, preset, cli.UsageError("--header is for the address of a server, and %s is a program; use --env", cmd.Name)
	}
	env, headers := configfile.Object{}, configfile.Object{}
	if present, ok := entry.Get("headers").(configfile.Object); ok {
		headers = present
	}
	for _, pair := range cmd.Env {
		name, value, given := strings.Cut(pair, "=")
		if !given {
			value = "${" + name + "}"
		}
		if name == "" || strings.ContainsAny(name, " ${}") {
			return nil, preset, cli.UsageError("--env %s: write NAME=value, or NAME alone", name)
		}
		env.Set(name, value)
	}
	for _, header := range cmd.Header {
		name, value, err := cli.ParseHeader(header)
		if err != nil {
			return nil, preset, err
		}
		headers.Set(name, value)
	}
	if len(env) > 0 {
		entry.Set("env", env)
	}
	if len(headers) > 0 {
		entry.Set("headers", headers)
	}
	if cmd.Cwd != "" {
		entry.Set("cwd", cmd.Cwd)
	}
	for _, found := range hosts.LikelySecrets(cmd.Name, entry) {
		inv.Warn("", "%s looks like a secret, and the file holds it now; better write a variable in its place, as in '${%s}'", found.Place, found.Variable)
	}
	return entry, preset, nil
}

// bareAddress matches an address without http:// or https:// in front.
var bareAddress = regexp.MustCompile(`^([\w-]+\.)+[A-Za-z]{2,}(:\d+)?/|^[\w.-]+:\d+(/|$)`)

// checkAddress refuses a first word that is no program, but an address of another kind.
func (cmd *Add) checkAddress() error {
	if len(cmd.Args) == 0 || cmd.Preset != "" {
		return nil
	}
	word := cmd.Args[0]
	scheme, _, isURL := strings.Cut(word, "://")
	_, err := os.Stat(word)
	switch {
	case isURL && isAddress(word):
		return cli.UsageError("an address stands alone; leave out what follows it, or write -- before a program")
	case isURL:
		return cli.UsageError("an address begins with http://, https://, ws:// or wss://, not with %s://; correct it, or write -- before a program", scheme)
	case err != nil && bareAddress.MatchString(word):
		return cli.UsageError("%s is not a file here; write https:// before an address, or -- before a program", word)
	}
	return nil
}

func commandEntry(words []string) configfile.Object {
	entry := configfile.Object{{Key: "command", Value: words[0]}}
	if len(words) > 1 {
		entry.Set("args", slices.Clone(words[1:]))
	}
	return entry
}

func isAddress(text string) bool {
	lower := strings.ToLower(text)
	return slices.ContainsFunc([]string{"http://", "https://", "ws://", "wss://"}, func(scheme string) bool { return strings.HasPrefix(lower, scheme) })
}

func listPresets(inv *cli.Invocation) error {
	var rows [][]any
	list := []map[string]any{}
	for _, p := range presets.All() {
		usage := strings.TrimSpace(p.Name + " " + p.Args)
		needs := strings.Join(p.Variables, ", ")
		if p.Authorizes() {
			needs = "mcpvisor authorize " + p.Name
		}
		rows = append(rows, []any{usage, p.Summary, needs})
		list = append(list, map[string]any{"name": p.Name, "args": p.Args, "summary": p.Summary, "needs": needs})
	}
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]any{"presets": list})
	}
	return inv.Table("PRESET\tWHAT IT IS\tNEEDS", rows)
}

// Remove is `mcpvisor remove`.
type Remove struct {
	targetFlags
	Name string `arg:"" help:"Name of the entry, or of its server." complete:"entry"`
}

// entryName returns the entry of a server. Both have the same name, unless that of the entry
// cannot name a server.
func entryName(f *configfile.File, server string) string {
	if _, _, ok := f.Entry(server); ok {
		return server
	}
	entries := configfile.Object{}
	for _, name := range f.Names() {
		entries.Set(name, commandEntry([]string{"x"}))
	}
	text, err := json.Marshal(configfile.Object{{Key: "mcpServers", Value: entries}})
	if err != nil {
		return server
	}
	if file, err := config.Parse(text, f.Path()); err == nil {
		for _, s := range file.Servers {
			if s.Spec.Name == server {
				return s.Entry
			}
		}
	}
	return server
}

func (cmd *Remove) Run(inv *cli.Invocation) error {
	from := ""
	f, err := editTarget(inv, cmd.targetFlags, func(f *configfile.File) error {
		if !f.Exists() {
			return cli.UsageError("config %s does not exist, so there is nothing to remove; name the file with --config", f.Path())
		}
		name := entryName(f, cmd.Name)
		from = place(f, name)
		if !f.Remove(name) {
			hint := "it has none"
			if names := f.Names(); len(names) > 0 {
				hint = cli.NameOneOf(cmd.Name, names)
			}
			return cli.UsageError("config %s has no entry %q (%s); mcpvisor config shows which file has it", f.Path(), cmd.Name, hint)
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer tellRun(inv)
	if inv.JSON {
		return cli.PrintJSON(inv.Out, map[string]any{"name": cmd.Name, "file": f.Path()})
	}
	_, err = fmt.Fprintf(inv.Out, "%s removed from %s\n", cmd.Name, table.OneLine(from, table.MaxText))
	return err
}
