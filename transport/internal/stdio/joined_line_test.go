package stdio

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// TestJoinedLine: a response is served although its line holds something else, too. The line
// is counted, and its reason can be read.
func TestJoinedLine(t *testing.T) {
	long := strings.Repeat("x", 3*jsonrpc.LargeMessage)
	for name, c := range map[string]struct {
		line      string // A and B are the responses
		malformed uint64
		reason    string
	}{
		"two_threads":       {"AB\n", 1, reasonJoined},
		"spaces_between":    {" A \t B\n", 1, reasonJoined},
		"nul_after":         {"A\x00\nB\x00\r", 2, reasonJoined},
		"nul_before":        {"\x00A\n\x00B", 2, reasonJoined},
		"nul_between":       {"A\x00\x00B\x00", 1, reasonJoined},
		"log_line_after":    {"ABINFO done", 1, jsonrpc.StrayLog},
		"log_object_before": {`{"level":"info"}AB`, 2, reasonJoined},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{"short", long} {
				p := newPeer(t, osPipe, 8<<20)
				one, two := p.startRequest(t.Context(), transport.Request{Method: "m"}), p.startRequest(t.Context(), transport.Request{Method: "m"})
				a, b := p.readMessage().ID, p.readMessage().ID
				p.writeLine("%s", strings.NewReplacer("A", answerLine(a, text), "B", answerLine(b, text)).Replace(c.line))
				want := outcome{result: `"` + text + `"`}
				require.Equal(t, []outcome{want, want}, []outcome{<-one, <-two})
				p.ping() // the lines before are handled
				require.Equal(t, mcpvisor.Discarded{Malformed: c.malformed}, p.discarded.Counts())
				require.Equal(t, c.reason, p.remarks.StrayOutput(p.redactor).Reason)
			}
		})
	}
}

// TestJoinedLine_half: of two responses that were written into each other, the complete one
// is served, and the other one fails at once.
func TestJoinedLine_half(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	one := p.startRequest(t.Context(), transport.Request{Method: "m"})
	a := p.readMessage().ID
	two := p.startRequest(t.Context(), transport.Request{Method: "m"})
	p.writeLine(`%s{"id":%d,`+"\n"+`"result":2}`, answerLine(a, "x"), p.readMessage().ID)
	require.Equal(t, outcome{result: `"x"`}, <-one)
	require.ErrorContains(t, (<-two).err, "over several lines")
}

// TestJoinedLine_part_of_something_else: an object within a text that is no message is not
// taken for one.
func TestJoinedLine_part_of_something_else(t *testing.T) {
	id := jsonrpc.FirstID + 1
	for _, text := range []string{
		"A,", "A]", "A}", "A:", "\"A\"", "[A", "x A", "{\"a\":A", "{\"a\":1},A", "{\n\"a\": 1, \"b\": [\nAA\n", "{\"a\":1} x", "\x00",
	} {
		c := newConn(jsonrpc.NewLifetime(), strings.NewReader(strings.ReplaceAll(text, "A", answerLine(id, "x"))), io.Discard, lineLimit(1<<20))
		require.ErrorIs(t, c.readAll(), io.EOF)
		require.Equal(t, mcpvisor.Discarded{Malformed: uint64(1 + strings.Count(strings.TrimSpace(text), "\n"))}, c.discarded.Counts(), text)
	}
}

// TestJoinedLine_many: a long line of objects takes no longer than as many lines.
func TestJoinedLine_many(t *testing.T) {
	const many = 100_000
	c := newConn(jsonrpc.NewLifetime(), strings.NewReader(""), io.Discard, lineLimit(1<<20))
	c.ReceiveLine([]byte(strings.Repeat("{}", many) + answerLine(jsonrpc.FirstID+1, "x")))
	require.Equal(t, mcpvisor.Discarded{Malformed: many + 1, Unmatched: 1}, c.discarded.Counts())
}

func answerLine(id int64, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%q}`, id, text)
}
