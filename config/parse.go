package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"
)

// maxSize is the longest file that is read, in bytes.
const maxSize = 4 << 20

// Load reads a file and parses it as [Parse] does. A file that does not exist is
// an error that wraps os.ErrNotExist; other errors wrap that of the file system. The
// errors have no exported type; they are texts for the user.
func Load(path string, opts ...Option) (*File, error) {
	data, err := readAll(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, notExistError(path)
	case err != nil:
		return nil, fmt.Errorf("config %s cannot be read; name a file that can: %w", path, err)
	}
	return Parse(data, path, opts...)
}

// notExistError is the error about a file of that name. It is not made by
// fmt.Errorf, because the text of os.ErrNotExist would say the same once more.
type notExistError string

func (path notExistError) Error() string {
	return fmt.Sprintf("config %s does not exist; create it, or name another file", string(path))
}

func (notExistError) Unwrap() error { return os.ErrNotExist }

// readAll reads a file to its end, or one byte more than maxSize of it. The file
// may be a pipe, so its size is not asked for.
func readAll(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// Parse reads the text of a file. filename is its name in errors and problems,
// and relative paths begin at its directory.
//
// An entry that cannot be used is a [Problem] of the returned file. Only a text
// that is unusable as a whole is an error, which names line and column: it is
// empty, too long, not JSON, or has no list of servers.
func Parse(data []byte, filename string, opts ...Option) (*File, error) {
	p := &parser{file: &File{Path: filename}, lookup: os.LookupEnv, workspace: filepath.Dir(filename)}
	for _, o := range opts {
		o(p)
	}
	if abs, err := filepath.Abs(p.workspace); err == nil {
		p.workspace = abs
	}
	p.data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	if err := p.checkText(); err != nil {
		return nil, err
	}
	root, err := hujson.Parse(bytes.Clone(p.data))
	if err != nil {
		return nil, syntaxError(filename, err)
	}
	top, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, p.errorAt(root.StartOffset, "the file is not a JSON object; begin with {\"mcpServers\": {…}}")
	}
	if err := p.readFile(&root, top); err != nil {
		return nil, err
	}
	return p.file, nil
}

// checkText rejects text that the JSON parser must not see.
func (p *parser) checkText() error {
	switch {
	case len(p.data) > maxSize:
		return fmt.Errorf("config %s is longer than %d bytes, which cannot be right; name another file", p.file.Path, maxSize)
	case bytes.HasPrefix(p.data, []byte("\xff\xfe")), bytes.HasPrefix(p.data, []byte("\xfe\xff")):
		return p.errorAt(0, "the file is UTF-16; save it as UTF-8")
	case len(bytes.TrimSpace(p.data)) == 0:
		return p.errorAt(0, "the file is empty; begin with {\"mcpServers\": {…}}")
	}
	if at, deep := tooDeep(p.data); deep {
		return p.errorAt(at, "objects and lists are nested more than %d deep, which cannot be right; close them", maxDepth)
	}
	return nil
}

var (
	// syntaxPlace is what hujson puts before its errors.
	syntaxPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): `)
	// badEscape finds a backslash that does not begin an escape of JSON.
	badEscape = regexp.MustCompile(`\\(u[^"]{0,3}[^0-9A-Fa-f"]|[^"\\/bfnrtu])`)
)

func syntaxError(filename string, err error) error {
	text := err.Error()
	if m := syntaxPlace.FindStringSubmatch(text); m != nil {
		filename += ":" + m[1] + ":" + m[2]
		text = strings.TrimPrefix(text, m[0])
	}
	if strings.HasPrefix(text, "invalid literal: ") && badEscape.MatchString(text) {
		return fmt.Errorf("config %s: this string is not valid JSON, because a backslash in it does not begin an escape; %s", filename, backslashAdvice)
	}
	return fmt.Errorf("config %s: this is not valid JSON: %s; correct it there (comments and trailing commas are allowed)", filename, text)
}
