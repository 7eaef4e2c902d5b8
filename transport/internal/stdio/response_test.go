package stdio

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestResponse_after_the_deadline: late responses are dropped and counted, and never
// reach another call.
func TestResponse_after_the_deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		var late []int64
		for range 5 {
			ended := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Second})
			late = append(late, p.readMessage().ID)
			read := make(chan transporttest.Message, 1)
			go func() { read <- p.readMessage() }()
			require.Equal(t, mcpvisor.OutcomeUnknown, (<-ended).err.Outcome)
			require.Equal(t, "notifications/cancelled", (<-read).Method)
		}
		ended := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
		id := p.readMessage().ID
		require.NotContains(t, late, id)
		for _, old := range late {
			p.writeLine(`{"id":%d,"result":"late"}`, old)
		}
		p.writeLine(`{"id":%d,"result":"mine"}`, id)
		require.Equal(t, outcome{result: `"mine"`}, <-ended)
		require.Equal(t, mcpvisor.Discarded{Unmatched: 5}, p.discarded.Counts())
		require.Zero(t, p.table.Open.Len())
	})
}

// TestResponse_to_an_unsent_request: a server that guesses the id of a request cannot
// answer it before it was sent.
func TestResponse_to_an_unsent_request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		first := p.startRequest(t.Context(), transport.Request{Method: "first"})
		synctest.Wait()
		second := p.startRequest(t.Context(), transport.Request{Method: "second"})
		synctest.Wait()
		p.writeLine(`{"id":%d,"result":"forged"}`, p.table.IDs.Last())
		p.writeProgress(p.table.IDs.Last(), 1) // nor report progress of it
		synctest.Wait()
		for _, ended := range []<-chan outcome{first, second} {
			m := p.readMessage()
			p.writeLine(`{"id":%d,"result":%q}`, m.ID, m.Method)
			require.Equal(t, outcome{result: `"` + m.Method + `"`}, <-ended)
		}
		require.Equal(t, mcpvisor.Discarded{Unmatched: 2}, p.discarded.Counts())
	})
}

// TestConn_responses: how each form of a response ends its call.
func TestConn_responses(t *testing.T) {
	p := newPeer(t, osPipe, 4<<10)
	long := strings.Repeat("x", 8<<10)
	for name, c := range map[string]struct {
		line   string // ID stands for the id
		result string
		kind   mcpvisor.ErrorKind
		text   string
	}{
		"verbatim":            {`{"jsonrpc":"2.0","id":ID,"result": {"b" : 1.0,"a":"\u00e9"} }`, `{"b" : 1.0,"a":"\u00e9"}`, "", ""},
		"null":                {`{"id":ID,"result":null}`, `null`, "", ""},
		"id as a string":      {`{"id":"ID","result":1}`, `1`, "", ""},
		"id as a fraction":    {`{"id":ID.0,"result":1}`, `1`, "", ""},
		"with carriage":       {`{"id":ID,"result":1}` + "\r", `1`, "", ""},
		"behind a mark":       {"\xef\xbb\xbf" + `{"id":ID,"result":1}`, `1`, "", ""},
		"in a batch":          {`[7,{"id":ID,"result":1}]`, `1`, "", ""},
		"behind a banner":     {"Server v1.0 running\n{half a line\n" + `{"id":ID,"result":1}`, `1`, "", ""},
		"behind a long line":  {long + "\n" + `{"id":ID,"result":1}`, `1`, "", ""},
		"error":               {`{"id":ID,"error":{"code":-32602,"message":"no such thing","data":[1]}}`, "", mcpvisor.KindRPC, "no such thing"},
		"error and result":    {`{"id":ID,"result":null,"error":{"code":1,"message":"m"}}`, "", mcpvisor.KindRPC, "m"},
		"result, error null":  {`{"id":ID,"result":2,"error":null}`, `2`, "", ""},
		"error, a bare text":  {`{"id":ID,"error":"out of disk space"}`, "", mcpvisor.KindRPC, "out of disk space"},
		"error, unreadable":   {`{"id":ID,"error":[1]}`, "", mcpvisor.KindProtocol, "cannot be read"},
		"malformed":           {`{"id":ID,"result":{"a":tru}}`, "", mcpvisor.KindProtocol, "not valid JSON"},
		"too long":            {`{"id":ID,"result":"` + long + `"}`, "", mcpvisor.KindProtocol, "longer than 4096 bytes"},
		"too long, id behind": {`{"result":"` + long + `","id":ID}`, "", mcpvisor.KindProtocol, "raise Limits.MaxMessageBytes"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
			id := p.readMessage().ID
			p.writeLine("%s", strings.ReplaceAll(c.line, "ID", fmt.Sprint(id)))
			got := <-ended
			require.Equal(t, c.result, got.result)
			if c.kind == "" {
				require.Nil(t, got.err)
				return
			}
			require.NotNil(t, got.err)
			require.Equal(t, c.kind, got.err.Kind)
			require.Equal(t, mcpvisor.OutcomeAnswered, got.err.Outcome)
			require.Contains(t, got.err.Error(), c.text)
		})
	}
	require.Equal(t, mcpvisor.Discarded{Malformed: 3, Oversize: 3}, p.discarded.Counts())
}

// TestConn_keeps_error_code_and_data: callers can read the code and the data of an
// error.
func TestConn_keeps_error_code_and_data(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
	p.writeLine(`{"id":%d,"error":{"code":-32042,"message":"m","data":{"a":[1]}}}`, p.readMessage().ID)
	var rpc *sdkrpc.Error
	require.ErrorAs(t, (<-ended).err, &rpc)
	require.Equal(t, int64(-32042), rpc.Code)
	require.JSONEq(t, `{"a":[1]}`, string(rpc.Data))
}

// TestConn_empty_response: a response with neither a result nor an error fails its call
// at once.
func TestConn_empty_response(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	for _, rest := range []string{``, `,"error":null`, `,"jsonrpc":"2.0"`} {
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		id := p.readMessage().ID
		p.writeLine(`{"id":%d%s}`, id, rest)
		got := <-ended
		require.NotNil(t, got.err)
		require.Equal(t, mcpvisor.KindProtocol, got.err.Kind)
		require.Equal(t, mcpvisor.OutcomeAnswered, got.err.Outcome)
		p.writeLine(`{"id":%d%s}`, id, rest) // malformed: the request has ended
	}
	require.Eventually(t, func() bool { return p.discarded.Counts() == mcpvisor.Discarded{Malformed: 3} }, transporttest.Patience, transporttest.TimeStep)
}

// TestConn_result_is_not_overwritten: lines that are read later do not overwrite a
// result, large or small.
func TestConn_result_is_not_overwritten(t *testing.T) {
	p := newPeer(t, osPipe, 8<<20)
	var results []<-chan outcome
	texts := []string{}
	for i, size := range []int{10, jsonrpc.LargeMessage, 1 << 20, 100, 3 * jsonrpc.LargeMessage, 20} {
		results = append(results, p.startRequest(t.Context(), transport.Request{Method: "m"}))
		texts = append(texts, `"`+strings.Repeat(string(rune('a'+i)), size)+`"`)
		p.writeLine(`{"id":%d,"result":%s}`, p.readMessage().ID, texts[i])
	}
	for i, ended := range results {
		require.Equal(t, texts[i], (<-ended).result)
	}
}
