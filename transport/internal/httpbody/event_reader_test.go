package httpbody

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// readEvents reads to the end of the stream.
func readEvents(r io.Reader, limit int) ([]Event, error) {
	s := NewEventReader(r, limit)
	var all []Event
	for {
		e, err := s.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func TestEventReader(t *testing.T) {
	rows := []struct {
		name, text string
		want       []Event
	}{
		{"empty", "", nil},
		{"one", "data: a\n\n", []Event{{Data: []byte("a")}}},
		{"no space, two spaces", "data:a\n\ndata:  b\n\n", []Event{{Data: []byte("a")}, {Data: []byte(" b")}}},
		{"CR LF", "data: a\r\n\r\ndata: b\r\n\r\n", []Event{{Data: []byte("a")}, {Data: []byte("b")}}},
		{"CR", "data: a\r\rdata: b\r\r", []Event{{Data: []byte("a")}, {Data: []byte("b")}}},
		{"BOM", "\ufeffdata: a\n\n", []Event{{Data: []byte("a")}}},
		{"BOM only at the beginning", "data: a\n\n\ufeffdata: b\n\n", []Event{{Data: []byte("a")}}},
		{"BOM after blank lines", "\n\n\ufeffdata: a\n\ndata: b\n\n", []Event{{Data: []byte("b")}}},
		{"BOM after CR LF", "\r\n\ufeffdata: a\n\ndata: b\n\n", []Event{{Data: []byte("b")}}},
		{"two BOMs", "\ufeff\ufeffdata: a\n\ndata: b\n\n", []Event{{Data: []byte("b")}}},
		{"lines join", "data: a\ndata:\ndata: b\n\n", []Event{{Data: []byte("a\n\nb")}}},
		{"fields", "event: message\nid: 7\nretry: 1500\ndata: a\n\n", []Event{{Name: "message", ID: "7", HasID: true, Retry: 1500 * time.Millisecond, Data: []byte("a")}}},
		{"comments and unknown fields", ": hi\nfoo: bar\nfoo\n\ndata: a\n\n", []Event{{Data: []byte("a")}}},
		{"priming", "id: 7\ndata:\n\n", []Event{{ID: "7", HasID: true, Data: []byte{}}}},
		{"id alone", "id: 7\n\n", []Event{{ID: "7", HasID: true}}},
		{"empty id", "id: 7\ndata: a\n\nid\ndata: b\n\ndata: c\n\n", []Event{{ID: "7", HasID: true, Data: []byte("a")}, {HasID: true, Data: []byte("b")}, {Data: []byte("c")}}},
		{"empty id alone", "id:\n\n", []Event{{HasID: true}}},
		{"retry that is not a number", "retry: 1s\nretry: -1\nretry: 99999999999999999999\n\n", nil},
		{"id with NUL", "id: a\x00b\ndata: a\n\n", []Event{{Data: []byte("a")}}},
		{"id too long", "id: " + strings.Repeat("x", maxEventID+1) + "\ndata: a\n\n", []Event{{Data: []byte("a")}}},
		{"name of an empty event is forgotten", "event: x\n\ndata: a\n\n", []Event{{Data: []byte("a")}}},
		{"cut short", "data: a\n\ndata: b", []Event{{Data: []byte("a")}, {Data: []byte("b")}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := readEvents(strings.NewReader(row.text), 4096)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}

func TestEventReader_brokenStream(t *testing.T) {
	broken := errors.New("reset")
	got, err := readEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 100)
	require.ErrorIs(t, err, broken)
	require.Len(t, got, 1, "the event that the broken stream cut short is not returned")
}

func TestEventReader_oversize(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, text := range map[string]string{
		"one line":      "data: {\"id\":1," + long + "}tail\n\ndata: next\n\n",
		"several lines": "data: {\"id\":1,\ndata: " + long[:50] + "\ndata: " + long[:50] + "\ndata: }tail\n\ndata: next\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readEvents(strings.NewReader(text), 64)
			require.NoError(t, err)
			require.Len(t, got, 2)
			require.True(t, got[0].Oversize)
			require.True(t, bytes.HasPrefix(got[0].Data, []byte(`{"id":1,`)))
			require.True(t, bytes.HasSuffix(got[0].Tail, []byte("}tail")), string(got[0].Tail))
			require.Equal(t, Event{Data: []byte("next")}, got[1])
		})
	}
	got, err := readEvents(strings.NewReader("data: "+long+"\n\n"), 100)
	require.NoError(t, err)
	require.False(t, got[0].Oversize, "the limit itself is allowed")
}

// Events that were written by the rules are read back, however the bytes are split into
// reads.
func TestEventReader_properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
		lines := rapid.SliceOfN(rapid.StringMatching(`[ -~äß]{0,40}`), 1, 4)
		var text strings.Builder
		var want []Event
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			data := lines.Draw(t, "data")
			id := rapid.StringMatching(`[a-z0-9]{0,5}`).Draw(t, "id")
			if id != "" {
				fmt.Fprintf(&text, "id: %s%s", id, end)
			}
			for _, line := range data {
				fmt.Fprintf(&text, "data: %s%s", line, end)
			}
			text.WriteString(end)
			want = append(want, Event{ID: id, HasID: id != "", Data: []byte(strings.Join(data, "\n"))})
		}
		for _, r := range []io.Reader{strings.NewReader(text.String()), iotest.OneByteReader(strings.NewReader(text.String()))} {
			got, err := readEvents(r, 1000)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("got %v (%v), want %v", got, err, want)
			}
		}
	})
}

func FuzzSSE(f *testing.F) {
	f.Add([]byte("data: a\n\nid: 1\rretry: 5\r\ndata\n\n"), 16)
	f.Add([]byte("\ufeffdata: "+strings.Repeat("x", 2000)+"\ndata: y\n\n: c\n\n"), 20)
	f.Add([]byte("id: \x00\nevent: e\n\n\r\r\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		limit = 1 + max(limit, -limit, 0)%2048
		whole, err := readEvents(bytes.NewReader(text), limit)
		require.NoError(t, err)
		parts, err := readEvents(iotest.OneByteReader(bytes.NewReader(text)), limit)
		require.NoError(t, err)
		require.Len(t, parts, len(whole))
		for i, e := range whole {
			require.LessOrEqual(t, len(e.Data), max(limit+1, 2*jsonrpc.EdgeSize))
			require.LessOrEqual(t, len(e.Tail), jsonrpc.EdgeSize)
			require.LessOrEqual(t, len(e.ID), maxEventID)
			require.GreaterOrEqual(t, e.Retry, time.Duration(0))
			require.Equal(t, e.Oversize, parts[i].Oversize)
			if !e.Oversize {
				require.Equal(t, e, parts[i])
			}
		}
	})
}

// A line without end does not grow the memory of the reader.
func TestEventReader_endlessLine(t *testing.T) {
	const size = 16 << 20
	for _, field := range []string{"data: ", ": ", ""} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readEvents(io.MultiReader(strings.NewReader(field), io.LimitReader(endlessReader{}, size)), 1<<10)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size/2))
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// The data of an event stays as it is when the read buffer is used again.
func TestEventReader_Close_eventsStayValid(t *testing.T) {
	first := NewEventReader(strings.NewReader("event: x\ndata: first\n\n"), 100)
	a, err := first.Next()
	require.NoError(t, err)
	first.Close()
	second := NewEventReader(strings.NewReader("event: y\ndata: other\n\n"), 100)
	b, err := second.Next()
	require.NoError(t, err)
	second.Close()
	require.Equal(t, Event{Name: "x", Data: []byte("first")}, a)
	require.Equal(t, Event{Name: "y", Data: []byte("other")}, b)
}

// The end of the stream is known as soon as it arrives, also together with an event.
func TestEventReader_Ended(t *testing.T) {
	const text = "data: a\n\n"
	late := NewEventReader(strings.NewReader(text), 100)
	defer late.Close()
	_, err := late.Next()
	require.NoError(t, err)
	require.False(t, late.Ended(), "the source has not reported its end")
	_, err = late.Next()
	require.ErrorIs(t, err, io.EOF)
	require.True(t, late.Ended())

	early := NewEventReader(iotest.DataErrReader(strings.NewReader(text)), 100)
	defer early.Close()
	_, err = early.Next()
	require.NoError(t, err)
	require.True(t, early.Ended())
}
