package hosts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/configfile"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/websocket"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
)

// Action is what an import does with an entry.
type Action string

const (
	// ActionAdd adds the entry.
	ActionAdd Action = "add"
	// ActionSame leaves an equal entry as it is.
	ActionSame Action = "same"
	// ActionReplace replaces another entry of the name.
	ActionReplace Action = "replace"
	// ActionClash leaves another entry of the name as it is.
	ActionClash Action = "clash"
	// ActionRefuse leaves out what cannot be an entry.
	ActionRefuse Action = "refuse"
)

// Clash is what to do with an entry whose name another entry has.
type Clash int

const (
	// Keep leaves the entry that is there.
	Keep Clash = iota
	// Replace replaces it.
	Replace
	// Rename adds the new entry as NAME-HOST.
	Rename
)

// Item is one entry of a host in a [Plan].
type Item struct {
	// Name is the name of the entry in the configuration, and Entry that in the host's
	// file, if it is another one.
	Name  string `json:"name"`
	Entry string `json:"entry,omitempty"`
	// Host, Path and Line say where the entry is from. Line is 0 if it is not known.
	Host string `json:"host"`
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
	// Target is the command with its arguments, or the address, without secrets.
	Target string `json:"target,omitempty"`
	Action Action `json:"action"`
	// Reason says why for ActionRefuse, and where the other entry is for ActionSame,
	// ActionReplace and ActionClash.
	Reason string `json:"reason,omitempty"`
	// Notes say what else changes with the move.
	Notes []string `json:"notes,omitempty"`

	inputs    []string // the ids of those that it uses
	variables []string // the names of those that it uses
}

// Plan is what an import changes. Making it changes no file.
type Plan struct {
	Items []Item `json:"entries"`
	// Variables stand for the secrets that the hosts' files hold, or are those that an entry
	// refers to, without a default, and that are not set. They have to be set before the
	// servers start.
	Variables []*Variable `json:"variables"`
	// Unreadable are files that could not be read, with the reason.
	Unreadable []string `json:"unreadable,omitempty"`

	target *configfile.File
	env    Environment
	clash  Clash
	vars   variables
	// origins are where the entries that the plan adds are from, by name.
	origins map[string]string
}

// NewPlan reads the sources and changes target in memory; [configfile.File.Write] writes it.
// lookup finds variables of the environment, to say which are set.
func NewPlan(target *configfile.File, sources []Source, e Environment, clash Clash, lookup func(string) (string, bool)) (*Plan, error) {
	p := &Plan{target: target, env: e, clash: clash, vars: variables{lookup: lookup}, origins: map[string]string{}}
	for _, s := range sources {
		if sameFile(s.Path, target.Path()) {
			continue // it is read as it is
		}
		if err := p.addSource(s); err != nil {
			return nil, err
		}
	}
	p.Variables = slices.DeleteFunc(slices.Clone(p.vars.all), func(v *Variable) bool {
		return !slices.ContainsFunc(p.Items, func(i Item) bool {
			return i.Action != ActionClash && i.Action != ActionRefuse && slices.Contains(i.variables, v.Name)
		})
	})
	return p, nil
}

func sameFile(a, b string) bool {
	resolve := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		return path
	}
	return resolve(a) == resolve(b)
}

func (p *Plan) addSource(s Source) error {
	text, err := readFile(s.Path)
	if err != nil {
		p.Unreadable = append(p.Unreadable, fmt.Sprintf("%s (%s): it cannot be read", s.Path, s.Host.Name))
		return nil //nolint:nilerr // it is told, and the others are read
	}
	entries, inputs, err := s.Host.read(text, p.env)
	if err != nil {
		p.Unreadable = append(p.Unreadable, fmt.Sprintf("%s (%s): %v", s.Path, s.Host.Name, err))
		return nil
	}
	for _, r := range entries {
		item := Item{Entry: r.name, Host: s.Host.Name, Path: s.Path, Line: r.line, Action: ActionRefuse}
		entry, err := p.convert(s, r, &item)
		if err != nil {
			item.Name, item.Reason = r.name, err.Error()
		} else if err := p.place(s, entry, &item); err != nil {
			return err
		}
		if item.Entry == item.Name {
			item.Entry = ""
		}
		if item.Action != ActionRefuse && item.Action != ActionClash {
			p.vars.addReferenced(&item)
		}
		if item.Action == ActionAdd || item.Action == ActionReplace {
			if err := p.addInputs(&item, inputs); err != nil {
				return err
			}
		}
		p.Items = append(p.Items, item)
	}
	return nil
}

func (i *Item) place() string {
	if i.Line == 0 {
		return i.Host + " " + i.Path
	}
	return fmt.Sprintf("%s %s:%d", i.Host, i.Path, i.Line)
}

func (p *Plan) convert(s Source, r raw, item *Item) (object, error) {
	if runsMcpvisor(r.entry) {
		return nil, errors.New("it starts mcpvisor itself")
	}
	if r.err != nil {
		return nil, r.err
	}
	item.Name = r.name
	if err := mcpvisor.CheckServerName(r.name); err != nil {
		item.Name = cmp.Or(mcpvisor.SuggestServerName(r.name), "server")
		item.Notes = append(item.Notes, fmt.Sprintf("called %q, because %q cannot name a server", item.Name, r.name))
	}
	if s.Host.noVariables {
		r.entry = literal(r.entry, s.Host.Name, item)
	}
	entry, notes, err := s.Host.convert(commandAndArgs(r.entry))
	if err != nil {
		return nil, err
	}
	item.Notes = append(item.Notes, notes...)
	if s.Host.bareVariables {
		entry, _ = mapTexts(entry, func(text string) string { return bareVariable.ReplaceAllString(text, "$${$1}") }).(object)
	}
	if elsewhere := !sameFile(p.env.Dir, filepath.Dir(p.target.Path())); elsewhere && s.Project {
		entry = p.atProject(entry)
	} else if elsewhere {
		p.noteRelative(entry, item)
	}
	// What the loader would say is known before secrets are protected, and is shown without
	// any value.
	if err := check(entry, item); err != nil {
		return nil, err
	}
	entry = p.vars.protect(item.Name, item.place(), entry)
	item.Target = target(entry)
	item.inputs, item.variables = referencesIn(entry)
	return entry, nil
}

// commandAndArgs returns an entry in which a "command" that is a list is split, so that secrets are looked for in its words.
func commandAndArgs(entry object) object {
	words, ok := entry.Get("command").([]any)
	if !ok || len(words) == 0 {
		return entry
	}
	rest, args := take(entry, "args")
	more, _ := args.([]any)
	rest, _ = take(rest, "command")
	return append(object{{Key: "command", Value: words[0]}, {Key: "args", Value: slices.Concat(words[1:], more)}}, rest...)
}

// check lets the loader read an entry, with every variable set. Its errors and warnings hold
// no values.
func check(entry object, item *Item) error {
	text, err := json.Marshal(object{{Key: "mcpServers", Value: object{{Key: item.Name, Value: withKnownAddress(entry)}}}})
	if err != nil {
		return err
	}
	set := func(string) (string, bool) { return "https://example.com", true }
	f, err := config.Parse(text, "x.json", config.WithLookup(set), config.WithInput(func(config.Input) (string, error) { return "x", nil }),
		config.WithKeyring(func(string, string) (string, error) { return "x", nil }), config.WithCommands(func([]string, string) (string, error) { return "x", nil }), websocket.Option)
	if err != nil {
		return errors.New("mcpvisor cannot read it")
	}
	for _, problem := range f.Problems {
		switch {
		case strings.Contains(problem.Message, "cannot be read"), strings.Contains(problem.Message, "${file:"):
			// a file that is not there now
		case problem.Severity == config.SeverityError:
			return errors.New(strings.TrimPrefix(problem.Message, fmt.Sprintf("server %q ", item.Name)))
		default:
			item.Notes = append(item.Notes, problem.Message)
		}
	}
	return nil
}

// withKnownAddress returns a copy of an entry in which an address with variables is one that
// can be read: what they stand for is not known yet, and may be the whole address. The
// variables stay in its query, so that the loader says what is wrong with them.
func withKnownAddress(entry object) object {
	kind := ""
	for _, key := range []string{"type", "transport"} {
		if text, ok := entry.Get(key).(string); ok {
			kind = strings.ToLower(text)
		}
	}
	entry = slices.Clone(entry)
	for i, m := range entry {
		text, isText := m.Value.(string)
		if !isText || !slices.Contains(addressKeys, m.Key) || !reference.MatchString(text) {
			continue
		}
		scheme, _, found := strings.Cut(text[:reference.FindStringIndex(text)[0]], "://")
		switch {
		case found:
		case kind == "ws" || strings.HasPrefix(kind, "web"):
			scheme = "wss"
		default:
			scheme = "https"
		}
		entry[i].Value = scheme + "://example.com/?" + strings.Join(reference.FindAllString(text, -1), "")
	}
	return entry
}

var addressKeys = []string{"url", "serverUrl", "httpUrl"}

func target(entry object) string {
	for _, key := range append([]string{"command"}, addressKeys...) {
		text, ok := entry.Get(key).(string)
		if !ok {
			continue
		}
		args, _ := entry.Get("args").([]any)
		for _, arg := range args {
			if word, ok := arg.(string); ok {
				text += " " + word
			}
		}
		return text
	}
	return ""
}

// maxRenames is how many names are tried for one entry.
const maxRenames = 9

// place decides about the name of an entry, and puts the entry there.
func (p *Plan) place(s Source, entry object, item *Item) error {
	wanted := item.Name
	for n := range maxRenames {
		switch n {
		case 0:
		case 1:
			item.Name = wanted + "-" + s.Host.ID
		default:
			item.Name = fmt.Sprintf("%s-%s-%d", wanted, s.Host.ID, n)
		}
		present, line, taken := p.target.Entry(item.Name)
		if !taken {
			item.Action = ActionAdd
			p.origins[item.Name] = item.place()
			return p.target.Set(item.Name, entry)
		}
		item.Reason = cmp.Or(p.origins[item.Name], fmt.Sprintf("%s:%d", p.target.Path(), line))
		_, planned := p.origins[item.Name]
		switch {
		case equal(present, entry):
			item.Action = ActionSame
			return nil
		case p.clash == Replace && !planned: // of two hosts the first one wins
			item.Action = ActionReplace
			p.origins[item.Name] = item.place()
			return p.target.Set(item.Name, entry)
		case p.clash != Rename:
			item.Action = ActionClash
			return nil
		}
	}
	item.Action = ActionClash
	return nil
}

func equal(present json.RawMessage, entry object) bool {
	text, err := json.Marshal(entry)
	return err == nil && canonical.Equal(present, text)
}

// referencesIn returns the ids of the inputs that an entry uses, and the names of its
// variables that have no default.
func referencesIn(entry object) (inputs, variables []string) {
	mapTexts(entry, func(text string) string {
		for _, expr := range reference.FindAllString(strings.ReplaceAll(text, "$${", ""), -1) {
			name := strings.TrimPrefix(expr[2:len(expr)-1], "env:")
			if id, ok := strings.CutPrefix(name, "input:"); ok {
				inputs = append(inputs, id)
			} else if legalVariable.MatchString(name) && !slices.Contains(ownVariables, name) {
				variables = append(variables, name)
			}
		}
		return text
	})
	return inputs, variables
}

func (p *Plan) addInputs(item *Item, inputs []input) error {
	for _, id := range item.inputs {
		i := slices.IndexFunc(inputs, func(i input) bool { return i.id == id })
		if i < 0 {
			continue
		}
		present, declaration := p.target.Input(id), inputs[i].declaration
		if text, ok := declaration.Get("default").(string); ok && (declaration.Get("password") == true || isSecret(id, text)) {
			declaration, _ = take(declaration, "default") // it may be the secret itself
		}
		switch {
		case present == nil:
			if err := p.target.AddInput(declaration); err != nil {
				return err
			}
			item.Notes = append(item.Notes, fmt.Sprintf("its input %q is added to \"inputs\"", id))
		case !equal(present, declaration):
			item.Notes = append(item.Notes, fmt.Sprintf("the configuration declares input %q in another way, which stays", id))
		}
	}
	return nil
}

func (p *Plan) Count(action Action) (n int) {
	for _, i := range p.Items {
		if i.Action == action {
			n++
		}
	}
	return n
}

// literal keeps ${ a text: a host that replaces no variables starts the server with it. In an
// address it cannot be meant as a text, so it stays a variable.
func literal(entry object, host string, item *Item) object {
	changed := false
	kept, _ := mapTexts(entry, func(text string) string {
		changed = changed || strings.Contains(text, "${")
		return strings.ReplaceAll(text, "${", "$${")
	}).(object)
	for _, key := range addressKeys {
		if address, _ := entry.Get(key).(string); strings.Contains(address, "${") {
			kept.Set(key, address)
			item.Notes = append(item.Notes, fmt.Sprintf("the variable in %q is replaced here, which %s does not do", key, host))
		}
	}
	changed = changed && strings.Contains(fmt.Sprint(kept), "$${")
	if changed {
		item.Notes = append(item.Notes, "${ is written as $${, because it is a text for "+host+"; write ${ where you want a variable replaced")
	}
	return kept
}

// atProject makes paths of a project absolute, for a file that is elsewhere.
func (p *Plan) atProject(entry object) object {
	entry, _ = mapTexts(entry, func(text string) string { return strings.ReplaceAll(text, "${workspaceFolder}", p.env.Dir) }).(object)
	for _, key := range []string{"cwd", "envFile"} {
		path, ok := entry.Get(key).(string)
		if ok && path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "$") {
			entry.Set(key, filepath.Join(p.env.Dir, path))
		}
	}
	return entry
}

// noteRelative says what of an entry of the user now begins at the directory of the target.
// The host took the directory that was open, which no file of the user can name.
func (p *Plan) noteRelative(entry object, item *Item) {
	var relative []string
	mapTexts(entry, func(text string) string {
		if strings.Contains(text, "${workspaceFolder") && !slices.Contains(relative, "${workspaceFolder}") {
			relative = append(relative, "${workspaceFolder}")
		}
		return text
	})
	for _, key := range []string{"cwd", "envFile"} {
		if path, ok := entry.Get(key).(string); ok && path != "" && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "$") {
			relative = append(relative, key)
		}
	}
	if len(relative) > 0 {
		item.Notes = append(item.Notes, fmt.Sprintf("%s now begins at the directory of %s, not at the project; write the path in full",
			strings.Join(relative, ", "), p.target.Path()))
	}
}

// mapTexts returns a copy of a value with every text in it changed.
func mapTexts(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = mapTexts(v[i], change)
		}
		return out
	case object:
		out := object{}
		for _, m := range v {
			out.Set(m.Key, mapTexts(m.Value, change))
		}
		return out
	}
	return v
}
