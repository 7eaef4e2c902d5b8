//go:build linux

package integration

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// linesTransport reaches a server in memory over a transport of a host. Like a careful
// transport it drops what is not a message.
func linesTransport(server *mcpvisor.InMemory) *mcpvisor.Transport {
	return &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return lines{server: server}, nil }}
}

// remoteTransport is linesTransport to a server that knows nothing of the client's context, as
// one on another machine. Only the end of the connection ends it.
func remoteTransport(server *mcpvisor.InMemory) *mcpvisor.Transport {
	return &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return lines{server, true}, nil }}
}

type lines struct {
	server *mcpvisor.InMemory
	remote bool
}

func (l lines) Connect(ctx context.Context) (mcp.Connection, error) {
	if l.remote {
		ctx = context.WithoutCancel(ctx)
	}
	stdin, toServer := io.Pipe()
	fromServer, stdout := io.Pipe()
	c := &linesConn{in: bufio.NewReaderSize(fromServer, 64<<10), out: toServer, from: fromServer}
	go func() {
		_ = stdout.CloseWithError(l.server.Serve(ctx, stdin, stdout, io.Discard))
		_ = stdin.Close()
	}()
	return c, nil
}

type linesConn struct {
	in   *bufio.Reader
	out  *io.PipeWriter
	from *io.PipeReader
}

func (c *linesConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := c.readLine()
		if err != nil {
			return nil, err
		}
		if m, bad := jsonrpc.DecodeMessage(line); bad == nil {
			return m, nil
		}
	}
}

// maxLine is the longest message that the transport takes: few servers send longer ones.
const maxLine = 24 << 20

// readLine reads a line. Of one that is longer than a transport should take it keeps the
// beginning, which is not a message.
func (c *linesConn) readLine() (line []byte, err error) {
	for {
		part, err := c.in.ReadSlice('\n')
		if len(line) < maxLine {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (c *linesConn) Write(_ context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	_, err = c.out.Write(append(line, '\n'))
	return err
}

func (c *linesConn) Close() error {
	_ = c.out.Close()
	return c.from.Close()
}

func (c *linesConn) SessionID() string { return "" }

// Reasons why a row does not apply to a transport of the host.
const (
	noMessage = "what the server writes is not a message, so it stays in the transport"
	noStreams = "it is about stderr or an exit status, which a connection does not have"
	slowRow   = "it takes seconds; call/deaf is a Write that blocks, too"
)

// notOverTransport are the rows that do not apply.
var notOverTransport = map[string]string{
	"answer/nan": noMessage, "answer/no-version": noMessage, "answer/unquoted": noMessage, "answer/version-1": noMessage,
	"call/half-line": noMessage, "call/exit": noStreams, "call/never-reads": slowRow,
	"error/code-float": noMessage, "error/code-huge": noMessage, "error/code-text": noMessage, "error/message-object": noMessage,
	"error/number": noMessage, "error/text": noMessage,
	"handshake/deep": noMessage, "handshake/error-text": noMessage, "handshake/null-id": noMessage, "handshake/exit": noStreams,
	"handshake/exit-in-answer": noStreams, "handshake/exit-initialized": noStreams,
	"list/exit": noStreams, "list/page-2-exits": noStreams, "list/schema-deep": noMessage, "list/schema-too-deep": noMessage,
	"negotiation/odd-error": noMessage, "notification/deep": noMessage, "process/stderr-escapes": noStreams,
	"result/control": noMessage, "result/deep": noMessage, "result/deep-enough": noMessage, "result/nul": noMessage, "result/oversize-id-hidden": noMessage,
	"spawn/framed": noMessage, "spawn/http": noMessage, "spawn/prompt": noMessage,
	"spawn/late-exit": noStreams, "spawn/rude-exit": noStreams, "spawn/stderr-only": noStreams,
	"stream/batch": noMessage, "stream/batch-large": noMessage, "stream/batch-mixed": noMessage, "stream/binary": noMessage,
	"stream/blank-flood": noMessage, "stream/bom": noMessage, "stream/bom-in-answer": noMessage, "stream/junk": noMessage, "stream/junk-deep": noMessage,
	"stream/junk-flood": noMessage, "stream/junk-long": noMessage, "stream/junk-quotes": noMessage, "stream/leading": noMessage, "stream/pretty": noMessage,
	"stream/progress-bar": noMessage, "stream/trailing": noMessage, "stream/two-on-a-line": noMessage, "stream/utf-16-be": noMessage, "stream/utf-16-le": noMessage,
}

// stagesAbove are about the handshake and the content of answers, which the code above the
// transport judges as it does for stdio.
var stagesAbove = map[string]bool{"negotiation": true, "handshake": true, "list": true, "id": true, "answer": true, "error": true, "result": true, "read": true, "prompt": true}

var everyStage = flag.Bool("hostile.stages", false, "run the hostile servers over a transport of the host in every stage and era")

// The hostile servers that run in this process, over a transport of the host.
func TestHostileTransport(t *testing.T) {
	rows, known := allStdioRows(t), 0
	for i, m := range hostile.Misbehaviours() {
		server, inMemory := m.InMemory()
		if notOverTransport[m.Name] != "" {
			require.True(t, inMemory, "%s does not run over a transport anyway", m.Name)
			known++
			continue
		}
		if !inMemory || stagesAbove[m.Stage()] && !*everyStage || isLeftOut(i) {
			continue // it needs a process, or see stagesAbove
		}
		row := rows[m.Name]
		change := row.spec
		row.spec = func(s *mcpvisor.ServerSpec) {
			s.Stdio, s.InMemory, s.Transport = nil, nil, linesTransport(server)
			s.Timeouts.Shutdown = 10 * shutdownTimeout // Read may be copying a long line
			if change != nil {
				change(s)
			}
		}
		for i, era := range row.inEras() {
			if i == 0 || *everyStage {
				t.Run(m.Name+", "+string(era), func(t *testing.T) { runStdioRow(t, m, row, era) })
			}
		}
	}
	require.Len(t, notOverTransport, known, "an exclusion without a misbehaviour")
}
