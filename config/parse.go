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

// Load reads a file. See [Parse].
func Load(path string, opts ...Option) (*File, error) {
	data, err := readAll(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, absent(path)
	case err != nil:
		return nil, fmt.Errorf("configuration %s cannot be read; name a file that can: %w", path, err)
	}
	return Parse(data, path, opts...)
}

// absent is the error about a file that does not exist: os.ErrNotExist, which
// would say so once more.
type absent string

func (path absent) Error() string {
	return fmt.Sprintf("configuration %s does not exist; create it, or name another file", string(path))
}

func (absent) Unwrap() error { return os.ErrNotExist }

// readAll reads a file to its end, or a little more than maxSize of it. A pipe
// is as good as a file.
func readAll(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// Parse reads the text of a file; filename is what problems call it, and its
// directory is where relative paths begin. The error says with file, line and
// column why the text as a whole is of no use. Columns are counted in bytes,
// from 1, without a byte order mark.
func Parse(data []byte, filename string, opts ...Option) (*File, error) {
	r := &reader{file: &File{Path: filename}, lookup: os.LookupEnv, workspace: filepath.Dir(filename)}
	for _, o := range opts {
		o(r)
	}
	if abs, err := filepath.Abs(r.workspace); err == nil {
		r.workspace = abs
	}
	r.data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := r.checkText(); err != nil {
		return nil, err
	}
	root, err := hujson.Parse(bytes.Clone(r.data))
	if err != nil {
		return nil, syntaxError(filename, err)
	}
	top, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%s: the file is not a JSON object; begin with {\"mcpServers\": {…}}", r.at(root.StartOffset))
	}
	if err := r.read(&root, top); err != nil {
		return nil, err
	}
	return r.file, nil
}

// checkText refuses what the parser should not see.
func (r *reader) checkText() error {
	switch {
	case len(r.data) > maxSize:
		return fmt.Errorf("configuration %s has more than %d bytes, which cannot be right; name another file", r.file.Path, maxSize)
	case bytes.HasPrefix(r.data, []byte("\xff\xfe")), bytes.HasPrefix(r.data, []byte("\xfe\xff")):
		return fmt.Errorf("%s: the file is written in UTF-16; save it as UTF-8", r.at(0))
	case len(bytes.TrimSpace(r.data)) == 0:
		return fmt.Errorf("%s: the file is empty; begin with {\"mcpServers\": {…}}", r.at(0))
	}
	if at, deep := tooDeep(r.data); deep {
		return fmt.Errorf("%s: objects and lists are nested more than %d deep, which cannot be right; close them", r.at(at), maxDepth)
	}
	return nil
}

var syntaxPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): `)

func syntaxError(filename string, err error) error {
	text := err.Error()
	if m := syntaxPlace.FindStringSubmatch(text); m != nil {
		filename += ":" + m[1] + ":" + m[2]
		text = strings.TrimPrefix(text, m[0])
	}
	if strings.HasPrefix(text, "invalid literal: ") && badEscape.MatchString(text) {
		return fmt.Errorf("%s: this string is not JSON: a backslash in it begins no escape; %s", filename, backslashes)
	}
	return fmt.Errorf("%s: this is not JSON: %s; mend it there (comments and trailing commas are allowed)", filename, text)
}
