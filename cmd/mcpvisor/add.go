package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/hosts"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/presets"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/internal/secret"
)

type addCmd struct {
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
func (*addCmd) Help() string {
	return `Examples:

  mcpvisor add filesystem ~/notes
  mcpvisor add github
  mcpvisor add notes -- ./notes-server --verbose
  mcpvisor add search https://search.example.com/mcp --header 'Authorization: Bearer ${SEARCH_TOKEN}'`
}

// Run implements kong's command.
func (cmd *addCmd) Run(inv *invocation) error {
	if cmd.List {
		return inv.listPresets()
	}
	if cmd.Name == "" {
		return usageError("name the server to add, as in: mcpvisor add filesystem ~/notes; mcpvisor add --list lists the presets")
	}
	if err := mcpvisor.CheckServerName(cmd.Name); err != nil {
		return usageError("%v", err)
	}
	entry, preset, err := cmd.entry(inv)
	if err != nil {
		return err
	}
	replaced := false
	f, err := inv.editTarget(cmd.targetFlags, func(f *configfile.File) error {
		if _, _, replaced = f.Entry(cmd.Name); replaced && !cmd.Replace {
			return usageError("%s has an entry %q already; choose another name, or --replace it", place(f, cmd.Name), cmd.Name)
		}
		return f.Set(cmd.Name, entry)
	})
	if err != nil {
		return err
	}
	inv.warnEntry(f, cmd.Name)
	if inv.json {
		_, line, _ := f.Entry(cmd.Name)
		return printJSON(inv.out, map[string]any{"name": cmd.Name, "file": f.Path(), "line": line, "entry": entry})
	}
	verb := "added to"
	if replaced {
		verb = "replaced in"
	}
	if _, err := fmt.Fprintf(inv.out, "%s %s %s\n", cmd.Name, verb, table.OneLine(place(f, cmd.Name), maxChangeLength)); err != nil {
		return err
	}
	running, info, err := attach.Find(inv.ctx, inv.sources.key)
	if err == nil {
		running.Close()
		inv.note("mcpvisor run (pid %d) does not have it yet; restart that", info.PID)
	}
	switch {
	case preset.Authorizes():
		inv.note("next: mcpvisor authorize %s", cmd.Name)
	case err == nil:
		inv.note("next: mcpvisor --fresh status %s", cmd.Name)
	default:
		inv.note("next: mcpvisor status %s", cmd.Name)
	}
	return nil
}

// entry makes the entry from the arguments: a command, an address, or a preset.
func (cmd *addCmd) entry(inv *invocation) (configfile.Object, presets.Preset, error) {
	var entry configfile.Object
	var preset presets.Preset
	switch {
	case inv.command != nil:
		if len(inv.command) == 0 || len(cmd.Args) > len(inv.command) || cmd.Preset != "" {
			return nil, preset, usageError("write the name, then --, then the command, as in: mcpvisor add notes -- ./notes-server --verbose")
		}
		entry = commandEntry(inv.command)
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
			return nil, preset, unknownPresetError(name)
		}
		home, _ := os.UserHomeDir()
		var err error
		if entry, err = preset.Entry(cmd.Args, home); err != nil {
			return nil, preset, usageError("%v", err)
		}
	}
	return cmd.addFlags(inv, entry, preset)
}

// addFlags adds what the options say.
func (cmd *addCmd) addFlags(inv *invocation, entry configfile.Object, preset presets.Preset) (configfile.Object, presets.Preset, error) {
	_, program := entry.Get("command").(string)
	switch {
	case !program && len(cmd.Env) > 0:
		return nil, preset, usageError("--env is for a program, and %s is an address; use --header", cmd.Name)
	case !program && cmd.Cwd != "":
		return nil, preset, usageError("--cwd is for a program, and %s is an address; leave it out", cmd.Name)
	case program && len(cmd.Header) > 0:
		return nil, preset, usageError("--header is for an address, and %s is a program; use --env", cmd.Name)
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
			return nil, preset, usageError("--env %s: write NAME=value, or NAME alone", name)
		}
		inv.warnSecret(given, name, value, "--env "+name)
		env.Set(name, value)
	}
	for _, header := range cmd.Header {
		name, value, given := strings.Cut(header, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !given || name == "" {
			return nil, preset, usageError("a --header has no colon; write it as 'Name: value'")
		}
		inv.warnSecret(true, strings.ReplaceAll(name, "-", "_"), value, "a variable, as in --header '"+name+": ${VAR}'")
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
	if preset.Name == "" {
		for _, found := range hosts.LikelySecrets(cmd.Name, entry) {
			inv.warn("", "%s looks like a secret, and the file holds it now; better write a variable in its place, as in '${%s}'", found.Place, found.Variable)
		}
	}
	return entry, preset, nil
}

// bareAddress matches an address without http:// or https:// in front.
var bareAddress = regexp.MustCompile(`^([\w-]+\.)+[A-Za-z]{2,}(:\d+)?/|^[\w.-]+:\d+(/|$)`)

// checkAddress refuses a first word that is no program, but an address of another kind.
func (cmd *addCmd) checkAddress() error {
	if len(cmd.Args) == 0 || cmd.Preset != "" {
		return nil
	}
	word := cmd.Args[0]
	scheme, _, isURL := strings.Cut(word, "://")
	_, err := os.Stat(word)
	switch {
	case isURL && isAddress(word):
		return usageError("an address stands alone; leave out what follows it, or write -- before a program")
	case isURL:
		return usageError("an address begins with http:// or https://, not with %s://; correct it, or write -- before a program", scheme)
	case err != nil && bareAddress.MatchString(word):
		return usageError("%s is not a file here; write https:// before an address, or -- before a program", word)
	}
	return nil
}

// warnSecret warns of a secret that is written into the file as it is.
func (inv *invocation) warnSecret(given bool, name, value, better string) {
	var found secret.List
	if found.AddEnv([]string{name + "=" + value}); given && !found.Empty() && !strings.Contains(value, "${") {
		inv.warn("", "the value of %s looks like a secret, and the file holds it now; better use %s", name, better)
	}
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
	return strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")
}

func unknownPresetError(name string) error {
	hint := "the presets are: " + strings.Join(presets.Names(), ", ")
	if near := nearest.Names(name, presets.Names()); len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return usageError("there is no preset %q (%s); for a server of your own write an address, or -- and a command", name, hint)
}

// listPresets prints the presets.
func (inv *invocation) listPresets() error {
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
	if inv.json {
		return printJSON(inv.out, map[string]any{"presets": list})
	}
	return inv.table(inv.out, "PRESET\tWHAT IT IS\tNEEDS", rows)
}

type removeCmd struct {
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

// Run implements kong's command.
func (cmd *removeCmd) Run(inv *invocation) error {
	from := ""
	f, err := inv.editTarget(cmd.targetFlags, func(f *configfile.File) error {
		if !f.Exists() {
			return usageError("config %s does not exist, so there is nothing to remove; name the file with --config", f.Path())
		}
		name := entryName(f, cmd.Name)
		from = place(f, name)
		if !f.Remove(name) {
			hint := "it has none"
			if names := f.Names(); len(names) > 0 {
				hint = "it has: " + strings.Join(names, ", ")
			}
			return usageError("config %s has no entry %q (%s); mcpvisor config shows which file has it", f.Path(), cmd.Name, hint)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if inv.json {
		return printJSON(inv.out, map[string]any{"name": cmd.Name, "file": f.Path()})
	}
	_, err = fmt.Fprintf(inv.out, "%s removed from %s\n", cmd.Name, table.OneLine(from, maxChangeLength))
	return err
}
