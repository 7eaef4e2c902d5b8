package reader

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

var errStream = errors.New("the stream broke")

// textLine is one expected line.
type textLine struct {
	text string
	over bool
}

// splitLines is the model of a line reader: lines end with a line feed, and a carriage
// return before it, or before the end of the stream, belongs to the line break.
func splitLines(text []byte, limit int) (want []textLine) {
	for _, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSuffix(line, "\r")
		want = append(want, textLine{line, len(line) > limit})
	}
	return want
}

// requireLines reads r to its end and compares the lines. Of an oversize line only the
// two ends are compared.
func requireLines(t require.TestingT, want []textLine, r io.Reader, limit int, end error) {
	l := newLineReader(r, limit)
	for i, w := range want {
		line, tail, over, err := l.next()
		require.Equal(t, w.over, over, "line %d of %d bytes", i, len(w.text))
		if over {
			require.True(t, strings.HasPrefix(w.text, strings.TrimSuffix(string(line), "\r")), "the head of line %d", i)
			require.True(t, strings.HasSuffix(w.text, string(tail)), "the tail of line %d", i)
			require.GreaterOrEqual(t, len(line), min(jsonrpc.EdgeSize, limit))
			require.GreaterOrEqual(t, len(tail), min(jsonrpc.EdgeSize, len(w.text))-1)
			require.LessOrEqual(t, len(line)+len(tail), 2*jsonrpc.EdgeSize)
		} else {
			require.Equal(t, w.text, string(line), "line %d", i)
			require.Nil(t, tail)
		}
		if last := i == len(want)-1; last {
			require.ErrorIs(t, err, end, "the error comes with the last line")
		} else {
			require.NoError(t, err, "line %d of %d", i, len(want))
		}
	}
	for range 2 { // further calls return the same error
		line, _, over, err := l.next()
		require.Empty(t, line)
		require.False(t, over)
		require.ErrorIs(t, err, end)
	}
}

// chunkReader delivers text in pieces of the given sizes, in turn. The error comes with
// the last piece (early) or after it.
type chunkReader struct {
	text  []byte
	sizes []int
	err   error
	early bool
	turn  int
}

func (c *chunkReader) Read(p []byte) (int, error) {
	size := 1 << 20
	if len(c.sizes) > 0 {
		size = c.sizes[c.turn%len(c.sizes)]
	}
	c.turn++
	n := copy(p, c.text[:min(size, len(c.text))])
	c.text = c.text[n:]
	if len(c.text) == 0 && (c.early || n == 0) {
		return n, c.err
	}
	return n, nil
}

// TestLineReader compares the reader with its model, at a limit of 8 bytes.
func TestLineReader(t *testing.T) {
	for text, want := range map[string][]textLine{
		"":                {{"", false}},
		"a":               {{"a", false}},
		"a\n":             {{"a", false}, {"", false}},
		"a\r\nb\r\n":      {{"a", false}, {"b", false}, {"", false}},
		"a\rb\r\r\n":      {{"a\rb\r", false}, {"", false}},
		"\n\n\r\n":        {{"", false}, {"", false}, {"", false}, {"", false}},
		"1234567\n12345":  {{"1234567", false}, {"12345", false}},
		"12345678\nb\n":   {{"12345678", false}, {"b", false}, {"", false}},
		"12345678\r\nb":   {{"12345678", false}, {"b", false}},
		"123456789\nb\n":  {{"123456789", true}, {"b", false}, {"", false}},
		"123456789":       {{"123456789", true}},
		"12345678\r":      {{"12345678", false}},
		"1234567890":      {{"1234567890", true}},
		"\x00\xff\xfe\nb": {{"\x00\xff\xfe", false}, {"b", false}},
	} {
		require.Equal(t, want, splitLines([]byte(text), 8), "the model, %q", text)
		for name, r := range map[string]io.Reader{
			"whole":        strings.NewReader(text),
			"single":       iotest.OneByteReader(strings.NewReader(text)),
			"with the end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			t.Run(name, func(t *testing.T) { requireLines(t, want, r, 8, io.EOF) })
		}
	}
}

// TestLineReader_any_chunks: the pieces in which a stream arrives make no difference, at
// the sizes at which buffers grow, move and are replaced.
func TestLineReader_any_chunks(t *testing.T) {
	sizes := rapid.OneOf(
		rapid.IntRange(0, 20),
		rapid.IntRange(jsonrpc.EdgeSize-2, jsonrpc.EdgeSize+2),
		rapid.IntRange(jsonrpc.ReadBufferSize-3, jsonrpc.ReadBufferSize+3),
		rapid.IntRange(2*jsonrpc.ReadBufferSize-3, 2*jsonrpc.ReadBufferSize+3),
		rapid.IntRange(jsonrpc.LargeMessage-3, jsonrpc.LargeMessage+3),
		rapid.IntRange(0, 3*jsonrpc.LargeMessage),
	)
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		for i, size := range rapid.SliceOfN(sizes, 0, 12).Draw(t, "lines") {
			if i > 0 {
				text = append(text, rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "break")...)
			}
			for j := range size {
				text = append(text, "abcdefghijklmnopqrstuvwxyz0123456789 \r{}"[(j*7+i)%39])
			}
		}
		limit := rapid.OneOf(sizes, rapid.Just(1<<20)).Draw(t, "limit")
		c := &chunkReader{text: text, err: errStream, early: rapid.Bool().Draw(t, "early"),
			sizes: rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 9), sizes.Filter(func(n int) bool { return n > 0 })), 0, 5).Draw(t, "chunks")}
		requireLines(t, splitLines(text, limit), c, limit, errStream)
	})
}

// FuzzLineReader compares the reader with its model for arbitrary streams.
func FuzzLineReader(f *testing.F) {
	for _, seed := range []string{"", "a\n", "a\r\nb", "\n\n", "123456789\nb\r\n", strings.Repeat("x", 40) + "\ny", "\r\r\n\r"} {
		f.Add([]byte(seed), uint16(8), uint8(3), uint8(1), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit uint16, one, two uint8, early bool) {
		c := &chunkReader{text: text, err: errStream, early: early, sizes: []int{int(one) + 1, int(two) + 1}}
		requireLines(t, splitLines(text, int(limit)), c, int(limit), errStream)
	})
}

// TestLineReader_memory: an endless line takes no more memory than the limit, and the
// buffer of a large line is not kept for small ones.
func TestLineReader_memory(t *testing.T) {
	const limit = 1 << 20
	held := 0
	var l *lineReader
	watch := readerFunc(func(p []byte) (int, error) {
		held = max(held, len(l.buf))
		clear(p)
		return len(p), nil
	})
	l = newLineReader(io.MultiReader(io.LimitReader(watch, 64<<20), strings.NewReader("\nshort\n")), limit)
	_, _, over, err := l.next()
	require.NoError(t, err)
	require.True(t, over)
	require.LessOrEqual(t, held, limit+jsonrpc.ReadBufferSize)
	line, _, _, err := l.next()
	require.NoError(t, err)
	require.Equal(t, "short", string(line))

	large := strings.Repeat("x", limit) + "\n"
	l = newLineReader(io.MultiReader(strings.NewReader(large), strings.NewReader("short\n")), limit)
	line, _, over, err = l.next()
	require.NoError(t, err)
	require.False(t, over)
	require.Len(t, line, limit)
	line, _, _, err = l.next()
	require.NoError(t, err)
	require.Equal(t, "short", string(line))
	require.LessOrEqual(t, len(l.buf), jsonrpc.LargeMessage)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestLineReader_reader_without_progress: a stream that repeatedly returns neither bytes
// nor an error is given up.
func TestLineReader_reader_without_progress(t *testing.T) {
	line, _, _, err := newLineReader(readerFunc(func([]byte) (int, error) { return 0, nil }), 8).next()
	require.Empty(t, line)
	require.ErrorIs(t, err, io.ErrNoProgress)
}

// TestLineReader_detach: a detached part is not overwritten by lines that are read
// later.
func TestLineReader_detach(t *testing.T) {
	sizes := []int{10, jsonrpc.LargeMessage - 1, jsonrpc.LargeMessage, 3 * jsonrpc.LargeMessage, 100, 300 << 10, jsonrpc.LargeMessage + 5, 0, 7}
	var text []byte
	for i, size := range sizes {
		text = append(append(text, bytes.Repeat([]byte{'a' + byte(i)}, size)...), '\n')
	}
	for _, chunk := range []int{1 << 10, 100_000, 10 << 20} {
		for part := range 3 { // the whole line, its middle, its last bytes
			l := newLineReader(&chunkReader{text: text, sizes: []int{chunk}, err: io.EOF}, 1<<20)
			var claimed [][]byte
			for range sizes {
				line, _, over, err := l.next()
				require.NoError(t, err)
				require.False(t, over)
				from := []int{0, len(line) / 10, max(0, len(line)-5)}[part]
				mine := l.detach(line[from:])
				require.Len(t, mine, len(line)-from)
				_ = append(mine, "an append must not write into the buffer"...)
				claimed = append(claimed, mine)
			}
			for i, mine := range claimed {
				require.Equal(t, strings.Repeat(string('a'+rune(i)), len(mine)), string(mine))
			}
		}
	}
}

// TestLineReader_reports_first_large_line: onLarge is called once, so that the pipe can
// be enlarged.
func TestLineReader_reports_first_large_line(t *testing.T) {
	large := strings.Repeat("x", 2*jsonrpc.LargeMessage) + "\n"
	announced := 0
	l := newLineReader(strings.NewReader("short\n"+large+large), 1<<20)
	l.onLarge = func() { announced++ }
	for i, want := range []int{0, 1, 1} {
		_, _, over, err := l.next()
		require.NoError(t, err)
		require.False(t, over)
		require.Equal(t, want, announced, "after line %d", i)
	}
}

// TestLineReader_huge_limit: a limit near the largest int does not overflow.
func TestLineReader_huge_limit(t *testing.T) {
	large := strings.Repeat("x", 3*jsonrpc.LargeMessage)
	for _, limit := range transporttest.HugeLimits {
		l := newLineReader(strings.NewReader("short\n"+large+"\nrest"), limit)
		for _, want := range []string{"short", large, "rest"} {
			line, _, over, err := l.next()
			require.Equal(t, want, string(line))
			require.False(t, over)
			require.True(t, err == nil || errors.Is(err, io.EOF), err)
			require.Equal(t, want, string(l.detach(line)))
		}
	}
}

// TestLineReader_for_a_leader: neither a large line nor a larger buffer for one takes
// memory of others, and nothing is lost.
func TestLineReader_for_a_leader(t *testing.T) {
	large := "{" + strings.Repeat("c", 100<<10) + "}"
	for name, pieces := range map[string][]string{
		"the buffer is large":   {strings.Repeat("a", 300<<10) + "\nb\n" + large[:10], large[10:] + "\nd\n"},
		"the buffer is to grow": {strings.Repeat("a", 20<<10) + "\n", "b\n" + large[:31<<10], large[31<<10:] + "\nd\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var pipe []io.Reader
			for _, piece := range pieces {
				pipe = append(pipe, strings.NewReader(piece))
			}
			l := newLineReader(io.MultiReader(pipe...), 1<<20)
			l.free = func() {}
			l.reserve = func(int) bool {
				require.False(t, l.forLeader)
				return true
			}
			for range 2 {
				_, _, _, err := l.next()
				require.NoError(t, err)
			}
			l.forLeader = true
			_, _, _, err := l.next()
			require.Equal(t, errPaused, err)
			l.forLeader = false
			for _, want := range []string{large, "d"} {
				line, _, over, err := l.next()
				require.NoError(t, err)
				require.False(t, over)
				require.Equal(t, want, string(line))
			}
		})
	}
}
