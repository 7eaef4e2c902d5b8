package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

// piped is a host on two pipes, which the gateway can watch, as those of its standard input and output.
type piped struct {
	t      *testing.T
	in     *os.File // of the gateway
	out    *os.File
	client *facade.Client // with the server "a"
	lines  *bufio.Reader  // of out
	ended  chan error     // what Serve returns
}

func servePiped(t *testing.T) *piped {
	t.Helper()
	c := newAskingClient(t, nil, legacyFixture("a"))
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, out.SetDeadline(time.Now().Add(patience)))
	p := &piped{t, in, out, c, bufio.NewReader(out), make(chan error, 1)}
	go func() { p.ended <- Serve(t.Context(), Transport(c), &mcp.IOTransport{Reader: stdin, Writer: stdout}) }()
	t.Cleanup(func() {
		_, _ = in.Close(), out.Close()
		_, _ = stdin.Close(), stdout.Close()
	})
	p.send(`{"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}`)
	p.receive(`"id":1000`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

func (p *piped) send(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err)
}

// receive reads a line that must contain a text.
func (p *piped) receive(want string) string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	require.NoError(p.t, err)
	require.Contains(p.t, line, want)
	return line
}

// hang makes a call that does not end, and that the goroutine serves that has read it. It returns its id. A call that comes while
// the lines before it are still handled is served by another goroutine, and is canceled.
func (p *piped) hang() (id int) {
	p.t.Helper()
	until(p.t, func() bool {
		id++
		p.send(toolCallOf(id, "a/hang", "{}"))
		until(p.t, func() bool { return len(p.client.CallsInFlight()) == 1 })
		if isServedByReader() {
			return true
		}
		p.cancel(id)
		return false
	})
	return id
}

func (p *piped) cancel(id int) {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	until(p.t, func() bool { return len(p.client.CallsInFlight()) == 0 })
}

// isServedByReader reports whether a goroutine that has read a call serves it.
func isServedByReader() bool {
	stacks := make([]byte, 8<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "directCall.Run(")
}

// While a goroutine serves the call that it has read, all that comes is read and answered, and the call can be canceled.
func TestServe_reader_serves_a_call(t *testing.T) {
	p := servePiped(t)
	id := p.hang()
	p.send(`{"jsonrpc":"2.0","id":500,"method":"ping"}`)
	p.receive(`"id":500`)
	p.send(toolCallOf(501, "a/echo", `{"text":"beside it"}`))
	p.receive("beside it")
	p.cancel(id)
	for i := range 3 * 32 { // with the reader, and without it
		p.send(toolCallOf(i, "a/echo", fmt.Sprintf(`{"text":"call %d"}`, i)))
		p.receive(fmt.Sprintf("call %d", i))
	}
	p.hang()
	require.NoError(t, p.in.Close())
	require.NoError(t, receive(t, p.ended), "the end of the stream is noticed")
	until(t, func() bool { return len(p.client.CallsInFlight()) == 0 })
}

// When the client is closed, the call is answered before the stream ends.
func TestServe_client_is_closed_while_the_reader_serves(t *testing.T) {
	p := servePiped(t)
	id := p.hang()
	require.NoError(t, p.client.Close(t.Context()))
	answer := p.receive("")
	for strings.Contains(answer, "list_changed") {
		answer = p.receive("")
	}
	require.Contains(t, answer, fmt.Sprintf(`"id":%d`, id))
	require.Contains(t, answer, `"isError":true`)
	require.NoError(t, receive(t, p.ended))
}

// A server asks the host because of a call that the reader serves. All messages of calls come in their order: progress and
// questions before the result.
func TestServe_reader_serves_a_call_that_asks(t *testing.T) {
	p := servePiped(t)
	byReader := 0
	for id := 0; byReader < 3; id++ {
		require.Less(t, id, 10_000)
		p.send(toolCallOf(id, "a/consult", `{"method":"elicitation/create","params":`+wantsText+`}`))
		var question struct{ ID json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(p.receive("elicitation/create")), &question))
		if isServedByReader() {
			byReader++
		}
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"ann"}}}`, question.ID))
		require.Contains(t, p.receive(fmt.Sprintf(`"id":%d`, id)), "ann")
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a/slow_progress","arguments":{"steps":3,"ms":0},"_meta":{"progressToken":7}}}`, id))
		for line := p.receive(""); !strings.Contains(line, `"result"`); line = p.receive("") {
			require.Contains(t, line, `"progressToken":7`)
		}
	}
}

// A host that does not read an answer does not stop the gateway from reading what it sends: its end is noticed, and what it reads later is
// complete.
func TestServe_reader_does_not_wait_for_a_deaf_host(t *testing.T) {
	p := servePiped(t)
	const calls = 50        // their answers are far more than a pipe holds
	for id := range calls { // one at a time, so that the reader serves them
		p.send(toolCallOf(id, "a/big", `{"bytes":3000}`))
		until(t, func() bool { return p.client.Stats().Calls == uint64(id+1) })
	}
	p.send(toolCallOf(calls, "a/hang", "{}"))
	until(t, func() bool { return len(p.client.CallsInFlight()) == 1 })
	p.cancel(calls)
	answered := map[int]bool{} // a call that was read before the answer to the one before it was queued may pass it
	for range calls {
		line := p.receive(`"result"`)
		require.Greater(t, len(line), 3000)
		var answer struct{ ID int }
		require.NoError(t, json.Unmarshal([]byte(line), &answer))
		answered[answer.ID] = true
	}
	require.Len(t, answered, calls)
	require.False(t, answered[calls], "it was canceled")
	for range 50 {
		p.send(toolCallOf(1, "a/big", `{"bytes":3000}`))
	}
	require.NoError(t, p.in.Close())
	require.NoError(t, receive(t, p.ended))
}
