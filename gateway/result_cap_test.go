package gateway

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

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Of a text of 10 MB a client gets the beginning, and the whole text, byte for byte, by reading
// the link. The structured content is not touched. Nobody else can read it.
func TestHandler_shortens_results(t *testing.T) {
	const bound = 50 << 10
	literal := `"` + strings.Repeat(`\u00e4\n ü\ud83d\ude00<é`, 10<<20/24) + `"`
	structured := `{"all": [1.0, 9223372036854775808, "` + strings.Repeat("s", 2*bound) + `"]}`
	result := `{"_meta":{"a":1.0},"content":[{"type":"image","data":"` + strings.Repeat("A", bound) + `","mimeType":"image/png"},{"text":` + literal +
		`,"annotations":{"priority":1.0},"type":"text"},{"type":"text","text":"the end"}],"structuredContent":` + structured + `}`
	client := newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: rawServer(result)})
	alice, bob := NewToken(), NewToken()
	settings := newSettings(t, Settings{Profiles: map[string]Profile{"p": {}}})
	_, url := serveHTTP(t, client, WithHTTPLimits(HTTPLimits{KeepAlive: time.Hour}), WithMaxResultBytes(bound), WithSettings(settings), WithTokens(
		Token{Principal: "alice", SHA256: HashToken(alice)}, Token{Principal: "bob", SHA256: HashToken(bob)}, Token{Principal: "alice", SHA256: HashToken("alice-at-work"), Profile: "p"}))

	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		p := newPeer(t, url)
		p.header.Set("Authorization", "Bearer "+alice)
		p.initialize(version)
		_, answer := p.post(toolCallOf(2, "a__x", `{}`))
		short := []byte(memberOf(t, []byte(answer), "result"))
		require.True(t, json.Valid(short))
		require.Less(t, len(short), 3*bound+len(structured))
		require.Equal(t, structured, member(t, short, "structuredContent"))
		require.Equal(t, `{"a":1.0}`, member(t, short, "_meta"))
		var content []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(member(t, short, "content")), &content))
		require.Len(t, content, 4)
		require.Contains(t, string(content[0]), `"type":"image"`)
		head := member(t, content[1], "text")
		require.LessOrEqual(t, len(head)-2, bound)
		require.Greater(t, len(head), bound-20)
		require.True(t, strings.HasPrefix(literal, head[:len(head)-1]), "the beginning")
		require.Equal(t, `{"priority":1.0}`, member(t, content[1], "annotations"))
		var link struct{ Type, Text, URI, Name string }
		require.NoError(t, json.Unmarshal(content[2], &link))
		if version < linkVersion {
			require.Equal(t, "text", link.Type)
			_, link.URI, _ = strings.Cut(link.Text, "Read the resource ")
		} else {
			require.Equal(t, []string{"resource_link", "result of a__x"}, []string{link.Type, link.Name})
		}
		var whole string
		require.NoError(t, json.Unmarshal([]byte(literal), &whole))
		require.Contains(t, string(content[3]), "All 7 bytes", "the bound is for all texts together")

		read := `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"` + link.URI + `"}}`
		_, answer = p.post(read)
		var contents []struct{ URI, MIMEType, Text string }
		require.NoError(t, json.Unmarshal([]byte(memberOf(t, []byte(answer), "result", "contents")), &contents))
		require.Len(t, contents, 1)
		require.Equal(t, link.URI, contents[0].URI)
		if whole != contents[0].Text { // require.Equal would print both
			t.Error("it is not the whole text")
		}
		require.Contains(t, answer, literal)

		p.session = ""
		_, answer = p.post(modernRequest("resources/read", `"uri":"`+link.URI+`"`), versionHeader, modernVersion, methodHeader, "resources/read", nameHeader, link.URI)
		require.Equal(t, `"complete"`, memberOf(t, []byte(answer), "result", "resultType"))
		for _, other := range []string{bob, "alice-at-work"} {
			p.header.Set("Authorization", "Bearer "+other)
			p.initialize(version)
			_, answer = p.post(read)
			require.Equal(t, "-32002", memberOf(t, []byte(answer), "error", "code"), answer)
			_, unknown := p.post(strings.ReplaceAll(read, link.URI, resultScheme+"NOSUCHRESULT"))
			require.Equal(t, strings.ReplaceAll(unknown, resultScheme+"NOSUCHRESULT", link.URI), answer, "as if there were none")
		}
	}
}

func modernRequest(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
}

// A result within the bound, or without text, is the same bytes.
func TestShortenResult_leaves_alone(t *testing.T) {
	c := newConnection(t.Context(), newGateway(newClient(t), newOptions([]Option{WithMaxResultBytes(10)})))
	for _, result := range []string{
		`{"content":[{"type":"text","text":"0123456789"}],"structuredContent":{"a":"` + strings.Repeat("x", 100) + `"}}`,
		`{"content":[{"type":"image","data":"` + strings.Repeat("A", 100) + `"}]}`, `{"content":[{"type":"text","text":7}], "isError" : true}`,
		`{"resultType":"input_required","inputRequests":{}}`, `{"content":"not a list"}`, `{ }`,
	} {
		require.Equal(t, result, string(c.shortenResult("x", json.RawMessage(result))))
	}
	off := newConnection(t.Context(), newGateway(newClient(t), newOptions(nil)))
	long := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`
	require.Equal(t, long, string(off.shortenResult("x", json.RawMessage(long))), "off by default")
}

// Whatever the text, a shortened result is valid JSON, its texts together are within the bound, and
// are beginnings of the texts.
func TestShortenResult_any(t *testing.T) {
	g := newGateway(newClient(t), newOptions([]Option{WithMaxResultBytes(1)}))
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "texts")
		settings := new(SettingsVar)
		bound := rapid.IntRange(1, 40).Draw(t, "bound")
		if err := settings.Set(Settings{MaxResultBytes: bound}); err != nil {
			t.Fatal(err)
		}
		g.opts.settings = settings
		c := &connection{gateway: g}
		var items []string
		for _, text := range texts {
			literal, _ := json.Marshal(text)
			if rapid.Bool().Draw(t, "escaped") {
				literal = escapeAll(text)
			}
			items = append(items, `{"type":"text","text":`+string(literal)+`}`)
		}
		short := c.shortenResult("x", json.RawMessage(`{"content":[`+strings.Join(items, ",")+`]}`))
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
			kept, ok := g.results.get("", strings.TrimPrefix(result.Content[i].URI, resultScheme))
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
	s := newResults()
	s.bound, s.boundOfOwner = 100, 60
	text := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	_, ok := s.add("a", text(61))
	require.False(t, ok, "it never fits")
	first, _ := s.add("a", text(40))
	second, _ := s.add("a", text(20))
	third, _ := s.add("a", text(10))
	has := func(owner, id string) bool { _, ok := s.get(owner, id); return ok }
	require.Equal(t, []bool{false, true, true, false}, []bool{has("a", first), has("a", second), has("a", third), has("b", third)})
	other, _ := s.add("b", text(20))
	large, _ := s.add("c", text(60))
	require.Equal(t, []bool{false, true, true, true}, []bool{has("a", second), has("a", third), has("b", other), has("c", large)}, "the oldest of who has most")
	_, ok = s.add("b", text(30))
	require.True(t, ok)
	require.Equal(t, []bool{false, true, true}, []bool{has("c", large), has("b", other), has("a", third)}, "it was the most")
	require.Equal(t, 60, s.bytes)

	synctest.Test(t, func(t *testing.T) {
		s := newResults()
		id, _ := s.add("a", text(10))
		time.Sleep(resultTTL / 2)
		later, _ := s.add("a", text(10))
		time.Sleep(resultTTL/2 - time.Second)
		_, ok := s.get("a", id)
		require.True(t, ok)
		time.Sleep(time.Second)
		_, ok = s.get("a", id)
		require.False(t, ok)
		synctest.Wait()
		s.mu.Lock()
		require.Equal(t, 10, s.bytes)
		s.mu.Unlock()
		_, ok = s.get("a", later)
		require.True(t, ok)
		time.Sleep(resultTTL)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Zero(t, s.bytes)
		require.Empty(t, s.byOwner)
		require.Nil(t, s.expiry)
	})
}

// A server of that name keeps its own resources.
func TestReadResult_of_a_server_named_result(t *testing.T) {
	c := newClient(t, fixture("result", mcptest.Script{}))
	s := openRaw(t, Transport(c, WithMaxResultBytes(10)))
	answer := s.call("resources/read", `{"uri":"mcpvisor://result/mcptest://text"}`)
	require.NoError(t, answer.Error)
	require.Contains(t, string(answer.Result), "Hello from mcptest.")
}
