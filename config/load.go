package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/rules"
)

// maxSize is the longest file that is read, in bytes.
const maxSize = 4 << 20

// Load reads a file and parses it as [Parse] does. A file that does not exist is
// an error that wraps os.ErrNotExist; other errors wrap that of the file system. The
// errors have no exported type; they are texts for the user.
func Load(path string, opts ...Option) (*File, error) { return LoadFiles([]string{path}, opts...) }

// LoadFiles reads several files as one. Their entries follow each other in the order of paths. An
// entry of a later file replaces the entry of the same name in an earlier one as a whole: nothing
// of the earlier one is read, no variable and no input, and its problems are not reported. An
// unusable entry also replaces the earlier one, which would be a different server under the same
// name. [Server.Replaces] says what an entry replaced.
//
// Relative paths and ${workspaceFolder} belong to the file that has them, unless
// [WithWorkspace] is given. An input may be declared in any of the files; the last
// declaration counts. A file that cannot be used as a whole is an error, as with [Load]; so
// is an empty list of paths.
func LoadFiles(paths []string, opts ...Option) (*File, error) {
	if len(paths) == 0 { // not an empty configuration: a reload would end every server
		return nil, errors.New("config: no file is named; name at least one")
	}
	texts := make([]*text, len(paths))
	for i, path := range paths {
		data, err := regularfile.Read(path, maxSize)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil, notExistError(path)
		case err != nil:
			return nil, fmt.Errorf("config %s cannot be read; name a file that can: %w", path, err)
		}
		texts[i] = &text{path: path, data: data}
	}
	return parseTexts(texts, opts)
}

// notExistError is the error about a file of that name. It is not made by
// fmt.Errorf, because the text of os.ErrNotExist would say the same once more.
type notExistError string

func (path notExistError) Error() string {
	return fmt.Sprintf("config %s does not exist; create it, or name another file", string(path))
}

func (notExistError) Unwrap() error { return os.ErrNotExist }

// Parse reads the text of a file. filename is its name in errors and problems,
// and relative paths begin at its directory.
//
// An entry that cannot be used is a [Problem] of the returned file. Only a text
// that is unusable as a whole is an error, which names line and column: it is
// empty, too long, not JSON, or has no list of servers.
func Parse(data []byte, filename string, opts ...Option) (*File, error) {
	return parseTexts([]*text{{path: filename, data: data}}, opts)
}

// parseTexts reads files as one. It knows the entries of all of them before it reads any.
func parseTexts(texts []*text, opts []Option) (*File, error) {
	p := newParser()
	for _, o := range opts {
		if o != nil {
			o(p)
		}
	}
	var paths, entries []string
	for _, t := range texts {
		p.text = t
		if err := p.parse(); err != nil {
			return nil, err
		}
		paths = append(paths, t.path)
		entries = append(entries, t.entries...)
		p.groupNames = append(p.groupNames, t.groups...)
	}
	p.file.Path, p.file.Paths = strings.Join(paths, ", "), paths
	p.names = serverNames(entries)
	for i, t := range texts {
		p.text = t
		p.replaced = map[string]bool{}
		for _, later := range texts[i+1:] {
			for _, name := range later.entries {
				p.replaced[name] = true
			}
		}
		before := len(p.file.Problems)
		p.readEntries()
		p.readGateway(texts[i+1:])
		p.readGroups(texts[i+1:])
		p.readRules()
		slices.SortStableFunc(p.file.Problems[before:], func(a, b Problem) int {
			return cmp.Or(a.Line-b.Line, a.Column-b.Column)
		})
	}
	p.finishGroups()
	p.finishGateway()
	p.finishRules()
	return p.file, nil
}

// parse parses the present text, and finds its lists, the names of its entries and its
// inputs.
func (p *parser) parse() error {
	t := p.text
	t.workspace = cmp.Or(p.workspace, filepath.Dir(t.path))
	if abs, err := filepath.Abs(t.workspace); err == nil {
		t.workspace = abs
	}
	t.data = bytes.TrimPrefix(t.data, []byte("\xef\xbb\xbf")) // a byte order mark
	if err := t.check(); err != nil {
		return err
	}
	root, err := hujson.Parse(bytes.Clone(t.data))
	if err != nil {
		return syntaxError(t.path, err)
	}
	top, ok := root.Value.(*hujson.Object)
	if !ok {
		return t.errorAt(root.StartOffset, "the file is not a JSON object; begin with {\"mcpServers\": {…}}")
	}
	if t.lists = p.findLists(top); len(t.lists) == 0 {
		return t.noListsError(&root, top)
	}
	for _, l := range t.lists {
		if _, ok := l.member.Value.Value.(*hujson.Object); !ok {
			return t.errorAt(l.member.Value.StartOffset, "%q is not an object; write {\"name\": {\"command\": …}}", l.path)
		}
	}
	t.entries = entryNames(t.lists)
	p.readPath(top, "journal", "file", "calls.db", &p.file.Journal)
	p.readPath(top, "records", "directory", "records", &p.file.Records)
	p.readLock(top)
	p.findRules(top)
	t.findGroups(top)
	for m := range membersNamed(top, "gateway") {
		t.gateway = &m.Value
		t.gateways++
	}
	for _, key := range topKeys {
		for m := range misspelt(top, key, func(v *hujson.Value) bool { return topKinds[key] == v.Value.Kind() }) {
			p.addProblem(&m.Value, "", SeverityWarning, "unknown key %q is ignored; did you mean %q?", memberName(m), key)
		}
	}
	return nil
}

// topKinds are the kinds of values of keys at the top that cost nothing but a feature where they are misspelt.
var topKinds = map[string]hujson.Kind{"gateway": '{', "groups": '{', "journal": '"', "records": '"'}

// readPath reads the path of a file or directory at the top of the present text.
func (p *parser) readPath(top *hujson.Object, name, noun, example string, path *string) {
	for m := range membersNamed(top, name) {
		text, ok := literal(&m.Value, '"')
		if !ok || text.String() == "" {
			p.addProblem(&m.Value, "", SeverityError, "%q is not the path of a %s, so it is ignored; write a text, as in %q", name, noun, example)
			continue
		}
		if *path = text.String(); !filepath.IsAbs(*path) {
			*path = filepath.Join(p.text.workspace, *path)
		}
	}
}

// lockModes are the values of "lock", the strictest one last.
var lockModes = []string{"off", "warn", "enforce"}

// readLock reads "lock" at the top of the present text. A value that cannot be read is the strictest one.
// So is one under another name.
func (p *parser) readLock(top *hujson.Object) {
	strictest := lockModes[len(lockModes)-1]
	for m := range misspelt(top, "lock", func(v *hujson.Value) bool {
		text, ok := literal(v, '"')
		return ok && slices.Contains(lockModes, text.String())
	}) {
		if name := []byte(strings.ToLower(memberName(m))); string(slices.Sorted(slices.Values(name))) != "cklo" { // not the letters of "lock": it may be another key, such as a level of logs, which has "warn" and "off", too
			p.addProblem(&m.Value, "", SeverityWarning, "unknown key %q is ignored; did you mean \"lock\"?", memberName(m))
			continue
		}
		p.addProblem(&m.Value, "", SeverityError, "unknown key %q, whose value is one of \"lock\", so that counts as %q; call it \"lock\"", memberName(m), strictest)
		p.file.Problems[len(p.file.Problems)-1].Key = "lock"
		p.file.Lock, p.file.LockPath = strictest, filepath.Join(p.text.workspace, "mcpvisor.lock")
	}
	for m := range membersNamed(top, "lock") {
		mode := strictest
		if text, ok := literal(&m.Value, '"'); ok && slices.Contains(lockModes, text.String()) {
			mode = text.String()
		} else {
			p.addProblem(&m.Value, "", SeverityError, "\"lock\" is not one of %q, so it counts as %q", lockModes, mode)
			p.file.Problems[len(p.file.Problems)-1].Key = "lock"
		}
		if slices.Index(lockModes, mode) >= slices.Index(lockModes, p.file.Lock) {
			p.file.Lock = mode
		}
		p.file.LockPath = filepath.Join(p.text.workspace, "mcpvisor.lock")
	}
}

// Option changes how [Load] and [Parse] read a file.
type Option func(*parser)

// WithLookup sets how the value of an environment variable is found. It reports
// false for a variable that is not set. The default, also for nil, is os.LookupEnv.
func WithLookup(lookup func(name string) (string, bool)) Option {
	return func(p *parser) {
		if lookup != nil {
			p.lookup = lookup
		}
	}
}

// WithKeyring sets how ${keyring:service/account} is found. The error of lookup becomes
// part of a problem, so it must not hold the value. Without WithKeyring such a value is a
// problem: this package opens no keyring by itself.
func WithKeyring(lookup func(service, account string) (string, error)) Option {
	return func(p *parser) { p.keyring = lookup }
}

// WithCommands sets how the program of ${command:program and arguments} is run, in the folder of the file, for what it prints. A
// program runs once for each reading of the files. The error of run becomes part of a problem, so it must not hold the value.
// Without WithCommands such a value is a problem: this package runs no program by itself.
func WithCommands(run func(command []string, dir string) (string, error)) Option {
	return func(p *parser) { p.commands = run }
}

// WithFiles sets how ${file:path} is found, by the path as it is written. The error of lookup becomes
// part of a problem, so it must not hold the value. The default, also for nil, reads the file. A
// program that only checks a configuration, which another machine uses, needs it.
func WithFiles(lookup func(path string) (string, error)) Option {
	return func(p *parser) { p.files = lookup }
}

// WithServers limits what is read to some entries: those whose server has one of the names, or
// whose name in the file is one of them. The others are not read, and are [Server.Skipped]: the
// user is not asked for their inputs, no keyring is opened for them, and their mistakes are not
// reported. Without names all entries are skipped, so that only their names are known.
func WithServers(names ...string) Option {
	return func(p *parser) { p.only, p.limited = names, true }
}

// WithOtherServers lets "after" name servers that the files do not have. It is for a program that has more servers than
// those of the files, such as a node of a fleet.
func WithOtherServers() Option { return func(p *parser) { p.others = true } }

// WithWorkspace sets the directory that ${workspaceFolder} stands for and where
// relative paths begin. The default is the directory of the file.
func WithWorkspace(dir string) Option { return func(p *parser) { p.workspace = dir } }

// WithInput sets how the user is asked for VS Code's ${input:id}. ask is called
// at most once for each id, and not if the variable [Input.Variable] is set. Its
// error becomes part of a problem, so it must not hold the answer. Without
// WithInput an input has its default, and an entry whose input has none is left
// out with a problem.
func WithInput(ask func(Input) (string, error)) Option {
	return func(p *parser) { p.ask = ask }
}

// DefaultPath is the file in which a project lists its servers. The commands of
// mcpvisor read it unless --config names another.
const DefaultPath = ".mcp.json"

// File is the content of a configuration file. The package keeps no reference to
// a File that it has returned.
type File struct {
	// Path is the file's name, as it was given to [Load] or [Parse]. Several names are
	// joined by ", ".
	Path string
	// Paths are the names of the files that were read as one, in the order in which they
	// were given to [LoadFiles].
	Paths []string
	// Servers are the usable entries, in the order of the files, and those that [WithServers]
	// has skipped.
	Servers []Server
	// Unusable are the entries that cannot be used, in the order of the files. Only Name and
	// Origin of their Spec are set; Problems say what is wrong.
	Unusable []Server
	// Journal is the path of the file in which `mcpvisor run` keeps the calls with a key: "journal"
	// at the top of a file, relative to that file. The last file that has the key counts. Empty
	// without one.
	Journal string
	// Records is the path of the directory in which `mcpvisor run` keeps calls and events: "records" at the top of a file,
	// relative to that file. The last file that has the key counts. Empty without one. See package records.
	Records string
	// Lock says what is done about what differs from the lock file: "lock" at the top of a file, "off", "warn" or "enforce".
	// The strictest one of all files counts. Empty without one: as "off". See package lock.
	Lock string
	// LockPath is the path of mcpvisor.lock beside the last file that has "lock"; empty without one.
	LockPath string
	// Rules are those of "rules" at the top of the files, in the order of the files, for package rules. One that cannot be
	// read denies every call that no rule before it matches; a problem says why.
	Rules []rules.Rule
	// Gateway has the values of "gateway" at the top of the last file that has that key. nil without one.
	Gateway *Gateway
	// Groups are those of "groups" at the top of the files, in the order of the files. A group of a later file replaces
	// the one of the same name as a whole. Pass them to facade.Client.SetGroups.
	Groups []mcpvisor.Group
	// GroupsBroken: Groups is empty, because a problem says why no group may be used.
	GroupsBroken bool
	// Problems say what is wrong with the files, in the order of their lines.
	Problems []Problem
}

// Server is one entry.
type Server struct {
	// Spec is ready to be registered. StartSupervised is set, so that a server that is down
	// does not keep the host from starting.
	Spec mcpvisor.ServerSpec
	// Entry is the name of the entry in the file. Spec.Name is the same, unless
	// that text cannot name a server ("microsoft/playwright-mcp"). Then Spec.Name is
	// derived from it, and a warning says so.
	Entry string
	// Path is the name of the file that has the entry.
	Path string
	// Line is the line of that file in which the entry begins, from 1.
	Line int
	// Replaces gives the positions of the entries of the same name that this one replaced, as in
	// "user.json:4", in the order of the files.
	Replaces []string
	// Start is what is started, for a lock file: an object with the members "command", "args" and those that have the address,
	// as the entry writes them. Variables are not replaced, so that it holds no secret. nil unless the entry is usable.
	Start json.RawMessage
	// Disabled entries are listed but are not to be started. Only the name of their Spec is set:
	// their variables may be missing, and the user is not asked for their inputs.
	Disabled bool
	// OnDown says what happens to the tools of the server in the lists of a gateway while it is down.
	// nil: what settings.Settings.OnDown says.
	OnDown *settings.OnDown
	// NodeLabels are those that a node of a fleet must have to run the server. nil: none.
	NodeLabels map[string]string
	// Share is for how many clients of a gateway one process of the server runs. Empty: for all.
	Share settings.Share
	// Skipped entries are those that [WithServers] does not name. Only the name of their Spec is
	// set; whether they are usable is not known.
	Skipped bool
}

// Find returns the server with a name: that of the server, or else that of its
// entry in the file. It reports false if the file has neither.
func (f *File) Find(name string) (Server, bool) {
	i := slices.IndexFunc(f.Servers, func(s Server) bool { return s.Spec.Name == name })
	if i < 0 {
		i = slices.IndexFunc(f.Servers, func(s Server) bool { return s.Entry == name })
	}
	if i < 0 {
		return Server{}, false
	}
	return f.Servers[i], true
}

// Specs returns the specs of the servers that are neither disabled nor skipped, in the order
// of the file.
func (f *File) Specs() []mcpvisor.ServerSpec {
	var specs []mcpvisor.ServerSpec
	for _, s := range f.Servers {
		if !s.Disabled && !s.Skipped {
			specs = append(specs, s.Spec)
		}
	}
	return specs
}

// Broken returns the names of the servers whose entries cannot be used, which Unusable has.
// They are not in Specs. Pass them to the parameter keep of
// facade.Client.Apply, so that a typing error or an unset variable does not end a server
// that runs by an earlier, sound version of its entry:
//
//	err := client.Apply(ctx, file.Specs(), file.Broken()...)
//
// If an entry is defined twice, the first definition counts; if that one is usable, the server is
// not broken.
func (f *File) Broken() []string {
	var names []string
	for i := range f.Unusable {
		names = append(names, f.Unusable[i].Spec.Name)
	}
	return names
}
