package hostile

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
)

// prefixWriter writes a prefix before every write.
type prefixWriter struct {
	io.WriteCloser
	prefix string
}

func (p prefixWriter) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.WriteCloser, p.prefix+string(b))
	return len(b), err
}

// contentLengthWriter frames messages with Content-Length headers, as the language
// server protocol does.
type contentLengthWriter struct{ io.WriteCloser }

func (f contentLengthWriter) Write(b []byte) (int, error) {
	_, err := fmt.Fprintf(f.WriteCloser, "Content-Length: %d\r\n\r\n%s", len(b)-1, b[:len(b)-1])
	return len(b), err
}

// replacingWriter replaces texts in what is written.
type replacingWriter struct {
	io.WriteCloser
	*strings.Replacer
}

func (r replacingWriter) Write(b []byte) (int, error) {
	_, err := r.WriteString(r.WriteCloser, string(b))
	return len(b), err
}

// utf16Writer converts to UTF-16.
type utf16Writer struct {
	io.WriteCloser
	bigEndian bool
}

func (w utf16Writer) Write(b []byte) (int, error) {
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

// nopCloser has a Close without effect.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
