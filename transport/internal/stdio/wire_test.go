package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// peer is the server at the other end of a wire, played by the test.
type peer struct {
	*wire
	t   *testing.T
	in  *bufio.Reader
	out io.Writer
}

// memoryPipe holds nothing: a write waits for its reader.
func memoryPipe() (io.ReadCloser, io.WriteCloser, error) {
	r, w := io.Pipe()
	return r, w, nil
}

// osPipe holds some 64 KiB, as those of a process do.
func osPipe() (io.ReadCloser, io.WriteCloser, error) {
	r, w, err := os.Pipe()
	return r, w, err
}

// newPeer serves a wire over a pair of pipes and ends it with the test.
func newPeer(t *testing.T, pipe func() (io.ReadCloser, io.WriteCloser, error), limit int) *peer {
	t.Helper()
	theirs, mine, err := pipe()
	require.NoError(t, err)
	reads, writes, err := pipe()
	require.NoError(t, err)
	p := &peer{wire: newWire(jsonrpc.NewLifetime(), reads, mine, limit), t: t, in: bufio.NewReader(theirs), out: writes}
	var loops sync.WaitGroup
	loops.Go(func() { _ = p.readLoop() })
	loops.Go(func() { _ = p.writeLoop() })
	t.Cleanup(func() {
		p.die(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test ends"})
		for _, end := range []io.Closer{theirs, mine, reads, writes} {
			_ = end.Close()
		}
		loops.Wait()
		_ = p.control.Close()
	})
	return p
}

// read returns the next message of the client.
func (p *peer) read() (m transporttest.Message) {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	require.NoError(p.t, err)
	require.NoError(p.t, json.Unmarshal([]byte(line), &m), line)
	return m
}

func (p *peer) say(format string, args ...any) {
	p.t.Helper()
	_, err := fmt.Fprintf(p.out, format+"\n", args...)
	require.NoError(p.t, err)
}

// outcome is how a request ended.
type outcome struct {
	result string
	err    *mcpvisor.Error
}

// ask sends a request and tells later how it ended.
func (p *peer) ask(ctx context.Context, r transport.Request) <-chan outcome {
	ended := make(chan outcome, 1)
	go func() {
		result, err := p.request(ctx, r, nil)
		var e *mcpvisor.Error
		errors.As(err, &e)
		ended <- outcome{string(result), e}
	}()
	return ended
}

func TestWireMatchesAnswers(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	const calls = 50
	asked := map[string]<-chan outcome{}
	for i := range calls {
		asked[fmt.Sprintf(`{"n":%d}`, i)] = p.ask(t.Context(), transport.Request{Method: "m", Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
	}
	ids := map[int64]string{}
	for range calls {
		m := p.read()
		require.Equal(t, "m", m.Method)
		require.Greater(t, m.ID, jsonrpc.FirstID)
		require.NotContains(t, ids, m.ID)
		ids[m.ID] = string(m.Params)
	}
	for id, params := range ids { // in any order
		p.say(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, params)
	}
	for params, ended := range asked {
		require.Equal(t, outcome{result: params}, <-ended)
	}
	require.Zero(t, p.noise.Counts())
	require.NotZero(t, p.heard.Time())
}

// TestWireAnswers: what a server says, and what becomes of the call.
func TestWireAnswers(t *testing.T) {
	p := newPeer(t, osPipe, 4<<10)
	long := strings.Repeat("x", 8<<10)
	for name, c := range map[string]struct {
		says   string // ID stands for the id
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
		"error, a bare text":  {`{"id":ID,"error":"it broke"}`, "", mcpvisor.KindRPC, "it broke"},
		"error, unreadable":   {`{"id":ID,"error":[1]}`, "", mcpvisor.KindProtocol, "cannot be read"},
		"malformed":           {`{"id":ID,"result":{"a":tru}}`, "", mcpvisor.KindProtocol, "not valid JSON"},
		"too long":            {`{"id":ID,"result":"` + long + `"}`, "", mcpvisor.KindProtocol, "longer than 4096 bytes"},
		"too long, id behind": {`{"result":"` + long + `","id":ID}`, "", mcpvisor.KindProtocol, "raise Limits.MaxMessageBytes"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := p.ask(t.Context(), transport.Request{Method: "m"})
			id := p.read().ID
			p.say("%s", strings.ReplaceAll(c.says, "ID", fmt.Sprint(id)))
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
	require.Equal(t, mcpvisor.Discarded{Malformed: 3, Oversize: 3}, p.noise.Counts())
}

func TestWireKeepsCodeAndData(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	ended := p.ask(t.Context(), transport.Request{Method: "m"})
	p.say(`{"id":%d,"error":{"code":-32042,"message":"m","data":{"a":[1]}}}`, p.read().ID)
	var rpc *sdkrpc.Error
	require.ErrorAs(t, (<-ended).err, &rpc)
	require.Equal(t, int64(-32042), rpc.Code)
	require.JSONEq(t, `{"a":[1]}`, string(rpc.Data))
}

// TestWireSkipsNoise: junk is counted and costs nobody anything.
func TestWireSkipsNoise(t *testing.T) {
	p := newPeer(t, osPipe, 4<<10)
	ended := p.ask(t.Context(), transport.Request{Method: "m"})
	id := p.read().ID
	for _, junk := range []string{"hello", "{", "[", `[1,"a"]`, "7", `{"a":1}`, `{"id":1}`, "\x1b[31mred\x1b[0m", "\xff\xfe"} {
		p.say("%s", junk)
	}
	p.say("\n  \r\n\t") // empty lines are not even junk
	p.say(`{"id":%d,"result":0}`, id+1000)
	p.say(`{"id":%d,"result":1}`, id)
	require.Equal(t, outcome{result: "1"}, <-ended)
	p.say(`{"id":%d,"result":2}`, id) // twice
	p.say("%s", strings.Repeat("x", 5<<10))
	require.Eventually(t, func() bool {
		return p.noise.Counts() == mcpvisor.Discarded{Malformed: 10, Oversize: 1, Unmatched: 2}
	}, 10*time.Second, time.Millisecond)
}

// TestWireEmptyAnswers fail their call, and not only by its clock.
func TestWireEmptyAnswers(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	for _, rest := range []string{``, `,"error":null`, `,"jsonrpc":"2.0"`} {
		ended := p.ask(t.Context(), transport.Request{Method: "m"})
		id := p.read().ID
		p.say(`{"id":%d%s}`, id, rest)
		got := <-ended
		require.NotNil(t, got.err)
		require.Equal(t, mcpvisor.KindProtocol, got.err.Kind)
		require.Equal(t, mcpvisor.OutcomeAnswered, got.err.Outcome)
		p.say(`{"id":%d%s}`, id, rest) // junk by now
	}
	require.Eventually(t, func() bool { return p.noise.Counts() == mcpvisor.Discarded{Malformed: 3} }, transporttest.Patience, transporttest.TimeStep)
}

// TestWireLanesAreApart: whatever is no answer to a call goes to the control
// lane, in order.
func TestWireLanesAreApart(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	ended := p.ask(t.Context(), transport.Request{Method: "m"})
	id := p.read().ID
	p.waitsFor(3)
	p.say(`{"jsonrpc":"2.0","method":"notifications/of/our/own","params":{"id":%d}}`, id)
	p.say(`{"jsonrpc":"2.0","id":3,"result":{"sdk":true}}`)
	p.say(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) // a request of the server's own
	p.say(`{"id":%d,"result":1}`, id)
	require.Equal(t, outcome{result: "1"}, <-ended)
	require.Equal(t, id, p.read().ID, "the ping is answered")
	for _, want := range []string{"notifications/of/our/own", ""} {
		m, err := p.control.Read(t.Context())
		require.NoError(t, err)
		if r, ok := m.(*sdkrpc.Request); ok {
			require.Equal(t, want, r.Method)
		} else {
			require.Empty(t, want)
			require.JSONEq(t, `{"sdk":true}`, string(m.(*sdkrpc.Response).Result))
		}
	}
}

// TestWireResultsAreTheCallersOwn: a result is not overwritten by what is read
// later, large or small.
func TestWireResultsAreTheCallersOwn(t *testing.T) {
	p := newPeer(t, osPipe, 8<<20)
	var results []<-chan outcome
	texts := []string{}
	for i, size := range []int{10, jsonrpc.LargeMessage, 1 << 20, 100, 3 * jsonrpc.LargeMessage, 20} {
		results = append(results, p.ask(t.Context(), transport.Request{Method: "m"}))
		texts = append(texts, `"`+strings.Repeat(string(rune('a'+i)), size)+`"`)
		p.say(`{"id":%d,"result":%s}`, p.read().ID, texts[i])
	}
	for i, ended := range results {
		require.Equal(t, texts[i], (<-ended).result)
	}
}
