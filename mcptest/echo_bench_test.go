package mcptest

import (
	"context"
	"io"
	"testing"
)

// lines is a reader that repeats one line while the benchmark runs.
type lines struct {
	first, line []byte
	more        func() bool
}

func (l *lines) Read(p []byte) (int, error) {
	if len(l.first) > 0 {
		n := copy(p, l.first)
		l.first = l.first[n:]
		return n, nil
	}
	if !l.more() {
		return 0, io.EOF
	}
	return copy(p, l.line), nil
}

func (l *lines) Close() error { return nil }

type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// BenchmarkEcho measures the server alone, without pipes: it reads a line and writes
// one.
func BenchmarkEcho(b *testing.B) {
	in := &lines{
		first: []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}` + "\n"),
		line:  []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}` + "\n"),
		more:  b.Loop,
	}
	b.ReportAllocs()
	if err := InMemory(Script{}).Serve(context.Background(), in, discard{io.Discard}, nil); err != nil {
		b.Fatal(err)
	}
}
