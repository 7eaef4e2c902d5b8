package longresult

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpvisor/mcpvisor/gateway/internal/owner"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A result within the bound, or without text, is the same bytes.
func TestShorten_leaves_alone(t *testing.T) {
	s := New(func(string, int) bool { return true })
	for _, result := range []string{
		`{"content":[{"type":"text","text":"0123456789"}],"structuredContent":{"a":"` + strings.Repeat("x", 100) + `"}}`,
		`{"content":[{"type":"image","data":"` + strings.Repeat("A", 100) + `"}]}`, `{"content":[{"type":"text","text":7}], "isError" : true}`,
		`{"resultType":"input_required","inputRequests":{}}`, `{"content":"not a list"}`, `{ }`,
	} {
		require.Equal(t, result, string(s.Shorten(Cut{Limit: 10}, json.RawMessage(result))))
	}
	long := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`
	require.Equal(t, long, string(s.Shorten(Cut{}, json.RawMessage(long))), "without a bound")
}

// Whatever the text, a shortened result is valid JSON, its texts together are within the bound, and
// are beginnings of the texts.
func TestShorten_any(t *testing.T) {
	s := New(func(string, int) bool { return true })
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "texts")
		bound := rapid.IntRange(1, 40).Draw(t, "bound")
		var items []string
		for _, text := range texts {
			literal, _ := json.Marshal(text)
			if rapid.Bool().Draw(t, "escaped") {
				literal = escapeAll(text)
			}
			items = append(items, `{"type":"text","text":`+string(literal)+`}`)
		}
		short := s.Shorten(Cut{Shown: "x", Links: true, Limit: bound}, json.RawMessage(`{"content":[`+strings.Join(items, ",")+`]}`))
		var result struct {
			Content []struct{ Type, Text, URI string } `json:"content"`
		}
		if err := json.Unmarshal(short, &result); err != nil {
			t.Fatalf("%s: %v", short, err)
		}
		total, at := 0, 0
		eachText(short, func(text []byte) { total += len(text) - 2 })
		if total > bound {
			t.Fatalf("%d bytes of %d: %s", total, bound, short)
		}
		for i := 0; i < len(result.Content); i++ {
			item := result.Content[i]
			if item.Type == "text" && item.Text == texts[at] {
				at++
				continue
			}
			if item.Type == "text" {
				if !strings.HasPrefix(texts[at], item.Text) {
					t.Fatalf("%q does not begin %q", item.Text, texts[at])
				}
				i++
			}
			kept, _, ok := s.Get("", strings.TrimPrefix(result.Content[i].URI, Scheme))
			if whole, _ := jsonscan.ReadString(kept); !ok || whole != texts[at] {
				t.Fatalf("%q is kept for %q", whole, texts[at])
			}
			at++
		}
		if at != len(texts) {
			t.Fatalf("%d texts of %d", at, len(texts))
		}
	})
}

// escapeAll encodes a text as JSON with nothing but escapes.
func escapeAll(text string) []byte {
	b := []byte{'"'}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = fmt.Appendf(b, `\u%04x`, unit)
	}
	return append(b, '"')
}

// Texts are kept within bounds: who keeps much does not displace those of others, and what has ended
// costs nothing.
func TestResults_bounds(t *testing.T) {
	s := New(func(string, int) bool { return true })
	s.bound, s.boundOfPrincipal = 100, 60
	text := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	_, ok := s.add("a", "t", text(61))
	require.False(t, ok, "it never fits")
	first, _ := s.add("a", "t", text(40))
	second, _ := s.add("a", "t", text(20))
	third, _ := s.add("a", "t", text(10))
	has := func(owner, id string) bool { _, _, ok := s.Get(owner, id); return ok }
	require.Equal(t, []bool{false, true, true, false}, []bool{has("a", first), has("a", second), has("a", third), has("b", third)})
	other, _ := s.add("b", "t", text(20))
	large, _ := s.add("c", "t", text(60))
	require.Equal(t, []bool{false, true, true, true}, []bool{has("a", second), has("a", third), has("b", other), has("c", large)}, "the oldest of who has most")
	_, ok = s.add("b", "t", text(30))
	require.True(t, ok)
	require.Equal(t, []bool{false, true, true}, []bool{has("c", large), has("b", other), has("a", third)}, "it was the most")
	require.Equal(t, 60, s.bytes)

	s = New(func(string, int) bool { return true })
	s.bound, s.boundOfPrincipal = 100, 60
	ann, bob := owner.Name("ann", "p"), owner.Name("ann", "q")
	kept, _ := s.add("b", "t", text(40))
	for range 5 {
		for profile := range 5 {
			s.add(owner.Name("eve", fmt.Sprint(profile)), "t", text(10))
		}
	}
	require.Equal(t, 60, s.of["eve"].bytes, "all profiles of a principal have one bound")
	require.True(t, has("b", kept))
	mine, _ := s.add(ann, "t", text(10))
	require.Equal(t, []bool{true, false, false}, []bool{has(ann, mine), has(bob, mine), has("ann", mine)})

	synctest.Test(t, func(t *testing.T) {
		s := New(func(string, int) bool { return true })
		id, _ := s.add("a", "t", text(10))
		time.Sleep(ttl / 2)
		later, _ := s.add("a", "t", text(10))
		time.Sleep(ttl/2 - time.Second)
		_, _, ok := s.Get("a", id)
		require.True(t, ok)
		time.Sleep(time.Second)
		_, _, ok = s.Get("a", id)
		require.False(t, ok)
		synctest.Wait()
		s.mu.Lock()
		require.Equal(t, 10, s.bytes)
		s.mu.Unlock()
		_, _, ok = s.Get("a", later)
		require.True(t, ok)
		time.Sleep(ttl)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Zero(t, s.bytes)
		require.Empty(t, s.of)
		require.Nil(t, s.expiry)
	})
}
