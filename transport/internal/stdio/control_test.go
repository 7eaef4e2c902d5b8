package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// refusal is what the peer reads when a request of its own was not taken.
type refusal struct {
	ID    json.RawMessage `json:"id"`
	Error sdkrpc.Error    `json:"error"`
}

func (p *peer) readRefusal() (r refusal) {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	require.NoError(p.t, err)
	require.NoError(p.t, json.Unmarshal([]byte(line), &r), line)
	return r
}

// next is the message that the go-sdk reads next.
func (p *peer) next() sdkrpc.Message {
	p.t.Helper()
	m, err := p.control.Read(p.t.Context())
	require.NoError(p.t, err)
	return m
}

// TestControlBoundsRequests: as many may be without an answer; the others are
// refused, and an answer makes room for one.
func TestControlBoundsRequests(t *testing.T) {
	leave := make(chan struct{})
	p := newPeer(t, osPipe, 1<<20)
	p.asked.Handler = newPipeHandler()
	p.asked.Handler.Handlers.ElicitForm = transporttest.AcceptAfter(func(context.Context) { <-leave })
	p.asked.Handler.Next = func(ctx context.Context, _ string, _ mcp.Request) (mcp.Result, error) {
		<-leave
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
	p.asked.Handler.SetSession(nil)
	elicit := func(id string) {
		p.say(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"?"}}`, id)
	}
	for n := range controlQueue {
		elicit(fmt.Sprint(n))
		elicit("0") // from the second time on its id is in use
	}
	for _, id := range []string{"5000", `"text"`} {
		elicit(id)
		r := p.readRefusal()
		require.JSONEq(t, id, string(r.ID))
		require.EqualValues(t, inbound.CodeTooManyRequests, r.Error.Code)
		require.Equal(t, "too many requests", r.Error.Message)
	}
	elicit(`"` + strings.Repeat("x", inbound.MaxRefusal) + `"`)
	elicit("6000")
	require.Equal(t, "6000", string(p.readRefusal().ID), "the one before is too long to be repeated")
	require.Equal(t, mcpvisor.Discarded{Malformed: controlQueue + 1}, p.noise.Counts())
	close(leave)
	for range controlQueue {
		p.read()
	}
	require.Eventually(t, func() bool {
		return p.asked.Idle()
	}, transporttest.Patience, transporttest.TimeStep)
	elicit("7") // admitted again
	require.EqualValues(t, 7, p.read().ID)
}

// TestControlBoundsBytes: a few long notifications are as bad as many short
// ones. One may be of any length.
func TestControlBoundsBytes(t *testing.T) {
	long := strings.Repeat("x", inbound.MaxHeldBytes)
	p := newPeer(t, osPipe, 64<<20)
	for _, text := range []string{long, "short"} {
		p.say(`{"jsonrpc":"2.0","method":"notifications/of/our/own","params":{"a":"%s"}}`, text)
	}
	require.Eventually(t, func() bool { return p.noise.Counts() == mcpvisor.Discarded{Dropped: 1} }, transporttest.Patience, transporttest.TimeStep)
	p.next()
	p.say(`{"jsonrpc":"2.0","method":"notifications/of/our/own","params":{"a":"short"}}`)
	require.Equal(t, "notifications/of/our/own", p.next().(*sdkrpc.Request).Method, "what was read makes room")
}

// TestControlBoundsNotifications: those that nobody reads are dropped, and
// counted.
func TestControlBoundsNotifications(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	for range controlQueue + 5 {
		p.say(`{"jsonrpc":"2.0","method":"notifications/of/our/own"}`)
	}
	require.Eventually(t, func() bool { return p.noise.Counts() == mcpvisor.Discarded{Dropped: 5} }, transporttest.Patience, transporttest.TimeStep)
	p.next()
	p.say(`{"jsonrpc":"2.0","method":"notifications/of/our/own"}`)
	for range controlQueue {
		p.next()
	}
	require.Equal(t, mcpvisor.Discarded{Dropped: 5}, p.noise.Counts())
}

// TestControlLeavesNoClock: neither when server/discover is answered nor when it
// never will be.
func TestControlLeavesNoClock(t *testing.T) {
	id, err := sdkrpc.MakeID(float64(1))
	require.NoError(t, err)
	for _, answered := range []bool{true, false} {
		p := newPeer(t, osPipe, 1<<20)
		p.control.patience = time.Hour
		require.NoError(t, p.control.Write(t.Context(), &sdkrpc.Request{ID: id, Method: "server/discover"}))
		if answered {
			p.say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			p.next()
		} else {
			require.NoError(t, p.control.Close())
		}
		require.False(t, p.control.probed().clock.Stop())
	}
}

// TestControlAsksADeafServerNothing: refusals are written only as long as
// somebody reads them.
func TestControlAsksADeafServerNothing(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	const requests = 4 * controlQueue
	for n := range requests {
		p.say(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, n)
	}
	const least = requests - controlQueue - controlQueue - gatherMax/len(`{"jsonrpc":"2.0","id":1,"error":{}}`)
	require.Eventually(t, func() bool { return p.noise.Counts().Dropped >= uint64(least) }, transporttest.Patience, transporttest.TimeStep)
	p.table.Mu.Lock()
	defer p.table.Mu.Unlock()
	require.LessOrEqual(t, len(p.wire.out.queue), 2*controlQueue, "answers, and refusals")
}

// TestControlFloodOfADeafServer: the go-sdk's goroutines and memory are bounded
// too, and the calls under way are not concerned.
func TestControlFloodOfADeafServer(t *testing.T) {
	var flood []string
	for n := range 4 * controlQueue {
		flood = append(flood, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"a":"%s"}}`, n, strings.Repeat("x", 100)))
	}
	deaf := make(chan struct{})
	s := openMemory(t, transporttest.SendingServer(flood, deaf)) // says all that before it reads again
	done := make(chan error, 1)
	go func() {
		_, err := s.Request(t.Context(), transporttest.TinyCall("a"))
		done <- err
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(transporttest.Patience):
		require.FailNow(t, "the call does not end")
	}
	require.NotZero(t, s.Info().Discarded.Dropped)
	asked := &s.(*pipedSession).current().asked
	require.LessOrEqual(t, asked.Count(), controlQueue)
}

// TestControlRefusesMethodsOfServers: the go-sdk's client would ask the server
// in return.
func TestControlRefusesMethodsOfServers(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	p.say(`{"jsonrpc":"2.0","id":4,"method":"completion/complete","params":{}}`)
	r := p.readRefusal()
	require.Equal(t, "4", string(r.ID))
	require.EqualValues(t, sdkrpc.CodeMethodNotFound, r.Error.Code)
}

// waitsFor makes the go-sdk wait for an answer.
func (p *peer) waitsFor(id int64) {
	p.t.Helper()
	rpcID, err := sdkrpc.MakeID(float64(id))
	require.NoError(p.t, err)
	p.control.mu.Lock()
	defer p.control.mu.Unlock()
	p.control.waiting[rpcID] = true
}

// TestControlUselessAnswers: what can answer nothing fails the request that it
// is about, and only what is a message can.
func TestControlUselessAnswers(t *testing.T) {
	p := newPeer(t, osPipe, 1000)
	for i, line := range []string{`{"jsonrpc":"2.0","id":%d}`, `{"jsonrpc":"2.0","id":%d,"error":null}`,
		`{"jsonrpc":"2.0","id":%d,"result":"` + strings.Repeat("long", 1000) + `"}`} {
		id := int64(3 + i)
		p.waitsFor(id)
		p.say(`{"id":%d,"level":"info"}`, id) // a line of a log
		p.say(line, 9)                        // another's
		p.say(line, id)
		p.say(line, id) // once more
		r := p.next().(*sdkrpc.Response)
		require.Equal(t, id, r.ID.Raw())
		require.ErrorContains(t, r.Error, []string{"neither a result nor an error", "neither a result nor an error", "longer than 1000 bytes"}[i])
	}
	require.Eventually(t, func() bool { return p.noise.Counts() == mcpvisor.Discarded{Malformed: 7, Oversize: 3} }, transporttest.Patience, transporttest.TimeStep)
	p.control.mu.Lock()
	defer p.control.mu.Unlock()
	require.Empty(t, p.control.inbox, "one answer for each")
}

// TestControlAnswersAreTheirOwn: an answer that had to be repaired is not
// overwritten by what is read later.
func TestControlAnswersAreTheirOwn(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	want := `{"a":"` + strings.Repeat("a", 3000) + `"}`
	p.waitsFor(1)
	p.say(`{"id":1,"result":%s}`, want) // "jsonrpc" is missing
	const lines = 2 * jsonrpc.ReadBufferSize / 100
	for range lines {
		p.say("%s", strings.Repeat("X", 100))
	}
	require.Eventually(t, func() bool { return p.noise.Counts().Malformed == lines }, transporttest.Patience, transporttest.TimeStep)
	require.JSONEq(t, want, string(p.next().(*sdkrpc.Response).Result))
}

// TestControlUnderstandsIDsAsText: some servers give numbers back as strings.
func TestControlUnderstandsIDsAsText(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	unmatched := uint64(0)
	for _, id := range []string{`3`, `"3"`, `3.0`, `"3.0"`} {
		for _, said := range []string{`{"jsonrpc":"2.0","id":%s,"result":{}}`, `{"id":%s,"result":{}}`, `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"m"}}`,
			`{"id":%s,"error":{"code":1,"message":"m"}}`} {
			p.waitsFor(3)
			p.say(said, id)
			p.say(said, id) // one is enough
			r := p.next().(*sdkrpc.Response)
			require.Equal(t, int64(3), r.ID.Raw())
			if strings.Contains(said, "error") {
				require.ErrorContains(t, r.Error, "m")
			} else {
				require.NoError(t, r.Error)
			}
			unmatched++
			require.Eventually(t, func() bool { return p.noise.Counts().Unmatched == unmatched }, transporttest.Patience, transporttest.TimeStep)
		}
	}
	p.say(`{"jsonrpc":"2.0","id":"3","method":"ping"}`)
	require.Equal(t, `"3"`, string(p.readRefusal().ID), "a request has the id that its answer must have")
}

// TestHandshakeWithIDsAsText is the same from end to end.
func TestHandshakeWithIDsAsText(t *testing.T) {
	quoting := func(_ io.Writer, e jsonrpc.Envelope) string {
		if string(e.Method) == `"initialize"` {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","result":{"protocolVersion":"2025-06-18","capabilities":{}}}`, e.ID)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","error":{"code":-32601,"message":"no"}}`, e.ID)
	}
	s := openMemory(t, answering(quoting))
	require.Equal(t, "2025-06-18", s.Info().ProtocolVersion)
}
