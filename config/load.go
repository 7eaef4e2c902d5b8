package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/regularfile"
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
	p := &parser{file: &File{}, lookup: os.LookupEnv, inputs: map[string]Input{}}
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
		slices.SortStableFunc(p.file.Problems[before:], func(a, b Problem) int {
			return cmp.Or(a.Line-b.Line, a.Column-b.Column)
		})
	}
	p.finishGateway()
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
	p.readJournal(top)
	for i := range top.Members {
		if m := &top.Members[i]; memberName(m) == "gateway" {
			t.gateway = &m.Value
			t.gateways++
		}
	}
	return nil
}

// readJournal reads "journal" at the top of the present text.
func (p *parser) readJournal(top *hujson.Object) {
	for i := range top.Members {
		m := &top.Members[i]
		if memberName(m) != "journal" {
			continue
		}
		path, ok := literal(&m.Value, '"')
		if !ok || path.String() == "" {
			p.addProblem(&m.Value, "", SeverityError, "\"journal\" is not the path of a file, so it is ignored; write a text, as in \"calls.db\"")
			continue
		}
		if p.file.Journal = path.String(); !filepath.IsAbs(p.file.Journal) {
			p.file.Journal = filepath.Join(p.text.workspace, p.file.Journal)
		}
	}
}
