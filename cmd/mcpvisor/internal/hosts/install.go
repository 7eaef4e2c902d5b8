package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// Installation is the entry by which a host starts mcpvisor, and the file that it belongs into.
type Installation struct {
	Host Host
	Path string
	// Text is what the file has to hold, as far as it is about the entry: JSON, or TOML.
	Text string
	// Present says that the file has this entry already.
	Present bool

	name  string
	entry object
}

var ErrOtherEntry = errors.New("has another entry of that name")

// PlanInstall describes an entry with this name, which runs a command. project chooses the file
// of the project instead of that of the user. It reads the file and changes nothing. It returns
// an error that wraps [ErrOtherEntry] if the file has another entry of that name.
func (h Host) PlanInstall(e Environment, name string, command []string, project bool) (*Installation, error) {
	i := &Installation{Host: h, name: name, entry: slices.Clone(h.fixed)}
	if h.importOnly {
		return nil, fmt.Errorf("mcpvisor cannot write the file of %s; add a server with this command there: %s", h.Name, strings.Join(command, " "))
	}
	words := make([]any, 0, len(command))
	for _, word := range command {
		words = append(words, word)
	}
	if h.argv {
		i.entry.Set("command", words)
	} else {
		i.entry.Set("command", command[0])
		i.entry.Set("args", words[1:])
	}
	if project && h.project == nil {
		return nil, fmt.Errorf("%s has no file for a project; leave out --project", h.Name)
	}
	i.Path = h.Paths(e)[0]
	if project {
		i.Path = h.Paths(e)[len(h.user)]
	}
	if h.list == "" {
		return i, i.planTOML()
	}
	inner, err := json.MarshalIndent(object{{Key: h.list, Value: object{{Key: name, Value: i.entry}}}}, "", "  ")
	if err != nil {
		return nil, err
	}
	i.Text = string(inner) + "\n"
	f, err := configfile.OpenHost(i.Path, h.list)
	if err != nil {
		return nil, err
	}
	present, _, ok := f.Entry(name)
	if !ok {
		return i, nil
	}
	return i, i.compare(present)
}

// compare notes whether the file has this entry. Another one of the name is an error.
func (i *Installation) compare(present json.RawMessage) error {
	if i.Present = equal(present, i.entry); !i.Present {
		return fmt.Errorf("%s %w: %q", i.Path, ErrOtherEntry, i.name)
	}
	return nil
}

// runsMcpvisor reports whether an entry is one of PlanInstall.
func runsMcpvisor(entry object) bool {
	command, _ := entry.Get("command").(string)
	args, _ := entry.Get("args").([]any)
	if words, ok := entry.Get("command").([]any); ok && len(words) > 0 {
		command, _ = words[0].(string)
		args = words[1:]
	}
	name := strings.TrimSuffix(filepath.Base(filepath.ToSlash(command)), ".exe")
	return name == "mcpvisor" && len(args) > 0 && args[len(args)-1] == "stdio"
}

// planTOML is PlanInstall for Codex.
func (i *Installation) planTOML() error {
	var b strings.Builder
	quote := func(s string) string { // a string of JSON is one of TOML
		text, _ := json.Marshal(s) // a string always marshals
		return string(text)
	}
	args, _ := i.entry.Get("args").([]any)
	quoted := make([]string, len(args))
	for n, arg := range args {
		quoted[n] = quote(arg.(string)) //nolint:forcetypeassert // PlanInstall has made it
	}
	fmt.Fprintf(&b, "[mcp_servers.%s]\ncommand = %s\nargs = [%s]\n", quote(i.name), quote(i.entry.Get("command").(string)), strings.Join(quoted, ", ")) //nolint:forcetypeassert // PlanInstall has made it
	i.Text = b.String()
	text, err := regularfile.Read(i.Path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, _, err := readCodex(text, Environment{})
	if err != nil {
		return fmt.Errorf("%s: %w", i.Path, err)
	}
	at := slices.IndexFunc(entries, func(r raw) bool { return r.name == i.name })
	if at < 0 {
		return nil
	}
	present, err := json.Marshal(entries[at].entry)
	if err != nil {
		return err
	}
	return i.compare(present)
}

// BackupPath is where [Installation.Write] keeps the file as it was.
func (i *Installation) BackupPath() string { return i.Path + ".before-mcpvisor" }

// Write adds the entry to the file, or replaces the one of its name. If there was a file, it keeps that at
// BackupPath as it was, and backup is true.
func (i *Installation) Write() (backup bool, err error) {
	if i.Host.list == "" {
		return i.writeTOML()
	}
	f, err := configfile.OpenHost(i.Path, i.Host.list)
	if err != nil {
		return false, err
	}
	if err := f.Set(i.name, i.entry); err != nil {
		return false, err
	}
	if f.Exists() {
		if err := f.Backup(i.BackupPath()); err != nil {
			return false, fmt.Errorf("nothing was changed, because no backup of the file could be made: %w", err)
		}
	}
	return f.Exists(), f.Write()
}

// writeTOML adds the entry at the end: of TOML, the text of everything else stays.
func (i *Installation) writeTOML() (backup bool, err error) {
	before, err := regularfile.Read(i.Path, maxFile)
	backup = err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	after := bytes.Clone(before)
	if len(after) > 0 {
		after = append(bytes.TrimRight(after, "\n"), "\n\n"...)
	}
	after = append(after, i.Text...)
	if err := toml.Unmarshal(after, new(map[string]any)); err != nil {
		return false, fmt.Errorf("nothing was changed: %s cannot take another table at its end (%w); add it by hand", i.Path, err)
	}
	if backup {
		if err := configfile.Replace(i.BackupPath(), before); err != nil {
			return false, fmt.Errorf("nothing was changed, because no backup of the file could be made: %w", err)
		}
	}
	return backup, configfile.ReplaceUnchanged(i.Path, before, after)
}
