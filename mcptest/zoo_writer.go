package mcptest

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// prefixed puts a text in front of everything.
type prefixed struct {
	io.WriteCloser
	prefix string
}

func (p prefixed) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.WriteCloser, p.prefix+string(b))
	return len(b), err
}

// framed writes messages as the language server protocol has them.
type framed struct{ io.WriteCloser }

func (f framed) Write(b []byte) (int, error) {
	_, err := fmt.Fprintf(f.WriteCloser, "Content-Length: %d\r\n\r\n%s", len(b)-1, b[:len(b)-1])
	return len(b), err
}

// replaced writes one text for another.
type replaced struct {
	io.WriteCloser
	*strings.Replacer
}

func (r replaced) Write(b []byte) (int, error) {
	_, err := r.WriteString(r.WriteCloser, string(b))
	return len(b), err
}

// wide writes UTF-16.
type wide struct {
	io.WriteCloser
	bigEndian bool
}

func (w wide) Write(b []byte) (int, error) {
	var out []byte
	for _, u := range utf16.Encode([]rune(string(b))) {
		if w.bigEndian {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	_, err := w.WriteCloser.Write(out)
	return len(b), err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
