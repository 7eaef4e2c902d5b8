package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// FuzzConn feeds arbitrary output of a server to a connection with three calls in
// flight. Each call must end once, with a result that is valid JSON or with a complete
// error, and nothing may panic.
func FuzzConn(f *testing.F) {
	id := func(n int64) string { return strconv.FormatInt(jsonrpc.FirstID+n, 10) }
	for _, message := range []string{
		"", "\n\n\r\n", "hello\n", "{", "[]\n", `{"jsonrpc":"2.0","id":` + id(1) + `,"result":{}}` + "\n",
		`{"id":"` + id(2) + `","result":{"a":[1,{"b":"\u00e9"}]}}` + "\n" + `{"jsonrpc":"2.0","id":` + id(1) + `,"error":{"code":-1,"message":"no"}}` + "\n",
		`[{"jsonrpc":"2.0","id":` + id(1) + `,"result":1},{"jsonrpc":"2.0","id":` + id(3) + `,"result":null},7,[[]]]` + "\n",
		`{"jsonrpc":"2.0","id":` + id(1) + `,"result":{"cut` + "\n" + `{"jsonrpc":"2.0","id":` + id(1) + `,"result":{}}`,
		`{"id":` + id(1) + `,"result":{}}{"id":` + id(2) + `,"result":{"a":"b"}}` + "\x00\n\x00\n" + `{"id":` + id(3) + `,"result":1}log` + "\n",
		`{"jsonrpc":"2.0","method":"notifications/of/our/own"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n",
		`{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}` + "\n", `{"result":{},"id":1.073741825e9}` + "\n",
		`{"jsonrpc":"2.0","id":` + id(1) + `,"id":` + id(2) + `,"result":{},"error":null}` + "\n",
		`{"jsonrpc":"2.0","id":` + id(1) + `,"result":"` + string(bytes.Repeat([]byte("x"), 5000)) + `"}` + "\n",
	} {
		f.Add([]byte(message), uint16(7))
	}
	f.Fuzz(func(t *testing.T, message []byte, chunk uint16) {
		c := newConn(jsonrpc.NewLifetime(), &pieceReader{text: message, size: int(chunk)%4096 + 1}, io.Discard, lineLimit(4096))
		type end struct {
			result json.RawMessage
			err    error
		}
		ends := make(chan end, 3)
		var writes sync.WaitGroup
		c.goWrite = writes.Go
		for range 3 {
			go func() {
				result, err := c.request(context.Background(), &transport.Request{Method: "tools/call", Timeout: time.Minute}, nil)
				ends <- end{result, err}
			}()
		}
		for c.sentCount() < 3 { // all requests are written before the response is read
			time.Sleep(time.Microsecond)
		}
		require.ErrorIs(t, c.readAll(), io.EOF)
		c.end(&supervisor.Cause{Kind: supervisor.CauseExit, Message: "the end"})
		for range 3 {
			e := <-ends
			if e.err == nil {
				require.True(t, json.Valid(e.result), "%q", e.result)
				continue
			}
			var failed *mcpvisor.Error
			require.True(t, errors.As(e.err, &failed))
			require.NotEmpty(t, failed.Kind)
			require.NotEqual(t, mcpvisor.OutcomeNone, failed.Outcome)
		}
		writes.Wait()
		require.Zero(t, c.sentCount())
	})
}

// sentCount returns the number of calls in flight whose line has been taken for writing.
func (c *conn) sentCount() (n int) {
	c.table.Mu.Lock()
	defer c.table.Mu.Unlock()
	for e := range c.table.Open.All() {
		p := e.Owner.(*pending)
		if p.line.state != lineUnsent {
			n++
		}
	}
	return n
}

// pieceReader is a reader that returns a text in pieces.
type pieceReader struct {
	text []byte
	size int
}

func (p *pieceReader) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.text)
	p.text = p.text[n:]
	return n, nil
}
