package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/internal/longresult"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// Of a text of 10 MB a client gets the beginning, and the whole text, byte for byte, by reading
// the link. The structured content is not touched. No other principal can read it.
func TestHandler_shortens_results(t *testing.T) {
	const bound = 50 << 10
	literal := `"` + strings.Repeat(`\u00e4\n ü\ud83d\ude00<é`, 10<<20/24) + `"`
	structured := `{"all": [1.0, 9223372036854775808, "` + strings.Repeat("s", 2*bound) + `"]}`
	result := `{"_meta":{"a":1.0},"content":[{"type":"image","data":"` + strings.Repeat("A", bound) + `","mimeType":"image/png"},{"text":` + literal +
		`,"annotations":{"priority":1.0},"type":"text"},{"type":"text","text":"the end"}],"structuredContent":` + structured + `}`
	client := newClient(t, mcpvisor.ServerSpec{Name: "a", InMemory: rawServer(result)})
	alice, bob := NewToken(), NewToken()
	settings := newSettings(t, Settings{MaxResultBytes: bound, Profiles: map[string]Profile{"p": {}}})
	_, url := serveHTTP(t, client, WithHTTPLimits(HTTPLimits{KeepAlive: time.Hour}), WithSettings(settings), WithTokens(
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
			_, unknown := p.post(strings.ReplaceAll(read, link.URI, longresult.Scheme+"NOSUCHRESULT"))
			require.Equal(t, strings.ReplaceAll(unknown, longresult.Scheme+"NOSUCHRESULT", link.URI), answer, "as if there were none")
		}
	}
}

func modernRequest(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
}

// A server of that name keeps its own resources.
func TestReadResult_of_a_server_named_result(t *testing.T) {
	c := newClient(t, fixture("result", mcptest.Script{}))
	s := openRaw(t, Transport(c, WithSettings(newSettings(t, Settings{MaxResultBytes: 10}))))
	answer := s.call("resources/read", `{"uri":"mcpvisor://result/mcptest://text"}`)
	require.NoError(t, answer.Error)
	require.Contains(t, string(answer.Result), "Hello from mcptest.")
}
