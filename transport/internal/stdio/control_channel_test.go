package stdio

import (
	"context"
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

// TestControlChannel_limits_server_requests: maxControlQueue requests of the server may
// be without a response. Further ones are refused until one is answered.
func TestControlChannel_limits_server_requests(t *testing.T) {
	leave := make(chan struct{})
	p := newPeer(t, osPipe, 1<<20)
	p.serverRequests.Handler = newPipeHandler()
	p.serverRequests.Handler.Pool.Handlers.ElicitForm = transporttest.AcceptAfter(func(context.Context) { <-leave })
	p.serverRequests.Handler.Next = func(ctx context.Context, _ string, _ mcp.Request) (mcp.Result, error) {
		<-leave
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
	p.serverRequests.Handler.SetSession(nil)
	elicit := func(id string) {
		p.writeLine(`{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"?"}}`, id)
	}
	for n := range maxControlQueue {
		elicit(fmt.Sprint(n))
		elicit("0") // refused from the second time on: the id is in use
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
	require.Equal(t, "6000", string(p.readRefusal().ID), "the id of the request before is too long to be repeated")
	require.Equal(t, mcpvisor.Discarded{Malformed: maxControlQueue + 1}, p.discarded.Counts())
	close(leave)
	for range maxControlQueue {
		p.readMessage()
	}
	require.Eventually(t, func() bool {
		return p.serverRequests.Idle()
	}, transporttest.Patience, transporttest.TimeStep)
	elicit("7") // admitted: there is room again
	require.EqualValues(t, 7, p.readMessage().ID)
}

// TestControlChannel_limits_notification_bytes: waiting notifications are bounded in
// bytes, too. A single one may be of any length.
func TestControlChannel_limits_notification_bytes(t *testing.T) {
	long := strings.Repeat("x", inbound.MaxHeldBytes)
	p := newPeer(t, osPipe, 64<<20)
	for _, text := range []string{long, "short"} {
		p.writeLine(`{"jsonrpc":"2.0","method":"notifications/of/our/own","params":{"a":"%s"}}`, text)
	}
	require.Eventually(t, func() bool { return p.discarded.Counts() == mcpvisor.Discarded{Dropped: 1} }, transporttest.Patience, transporttest.TimeStep)
	p.nextControlMessage()
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/of/our/own","params":{"a":"short"}}`)
	require.Equal(t, "notifications/of/our/own", p.nextControlMessage().(*sdkrpc.Request).Method, "a notification that was read makes room")
}

// TestControlChannel_limits_notifications: notifications that the go-sdk does not read
// are dropped and counted.
func TestControlChannel_limits_notifications(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	for range maxControlQueue + 5 {
		p.writeLine(`{"jsonrpc":"2.0","method":"notifications/of/our/own"}`)
	}
	require.Eventually(t, func() bool { return p.discarded.Counts() == mcpvisor.Discarded{Dropped: 5} }, transporttest.Patience, transporttest.TimeStep)
	p.nextControlMessage()
	p.writeLine(`{"jsonrpc":"2.0","method":"notifications/of/our/own"}`)
	for range maxControlQueue {
		p.nextControlMessage()
	}
	require.Equal(t, mcpvisor.Discarded{Dropped: 5}, p.discarded.Counts())
}

// TestControlChannel_stops_probe_timer: the timer of server/discover is stopped by the
// response, and by Close if there is no response.
func TestControlChannel_stops_probe_timer(t *testing.T) {
	id, err := sdkrpc.MakeID(float64(1))
	require.NoError(t, err)
	for _, answered := range []bool{true, false} {
		p := newPeer(t, osPipe, 1<<20)
		p.control.discoverTimeout = time.Hour
		require.NoError(t, p.control.Write(t.Context(), &sdkrpc.Request{ID: id, Method: "server/discover"}))
		if answered {
			p.writeLine(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			p.nextControlMessage()
		} else {
			require.NoError(t, p.control.Close())
		}
		require.False(t, p.control.probeResult().timer.Stop())
	}
}

// TestControlChannel_drops_refusals_unread_by_the_server: if the server does not read,
// refusals are dropped and not queued without bound.
func TestControlChannel_drops_refusals_unread_by_the_server(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	const requests = 4 * maxControlQueue
	for n := range requests {
		p.writeLine(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, n)
	}
	const least = requests - maxControlQueue - maxControlQueue - maxBatchBytes/len(`{"jsonrpc":"2.0","id":1,"error":{}}`)
	require.Eventually(t, func() bool { return p.discarded.Counts().Dropped >= uint64(least) }, transporttest.Patience, transporttest.TimeStep)
	p.table.Mu.Lock()
	defer p.table.Mu.Unlock()
	require.LessOrEqual(t, len(p.conn.out.queue), 2*maxControlQueue, "responses, and refusals")
}

// TestControlChannel_flood_from_a_server_that_reads_nothing: the goroutines and the
// memory for requests of the server are bounded, and calls in flight are served.
func TestControlChannel_flood_from_a_server_that_reads_nothing(t *testing.T) {
	var flood []string
	for n := range 4 * maxControlQueue {
		flood = append(flood, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"a":"%s"}}`, n, strings.Repeat("x", 100)))
	}
	reading := make(chan struct{})
	s := openMemory(t, transporttest.SendingServer(flood, reading)) // writes all of flood before it reads again
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
	asked := &s.(*session).currentConn().conn.serverRequests
	require.LessOrEqual(t, asked.Count(), maxControlQueue)
}

// TestControlChannel_refuses_methods_of_servers: a method that only servers implement is
// refused. The client of the go-sdk would send it back to the server.
func TestControlChannel_refuses_methods_of_servers(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	p.writeLine(`{"jsonrpc":"2.0","id":4,"method":"completion/complete","params":{}}`)
	r := p.readRefusal()
	require.Equal(t, "4", string(r.ID))
	require.EqualValues(t, sdkrpc.CodeMethodNotFound, r.Error.Code)
}

// TestControlChannel_unusable_responses_fail_their_request: a response that cannot be
// used fails the request with its id. A log line with the same id does not.
func TestControlChannel_unusable_responses_fail_their_request(t *testing.T) {
	p := newPeer(t, osPipe, 1000)
	for i, line := range []string{`{"jsonrpc":"2.0","id":%d}`, `{"jsonrpc":"2.0","id":%d,"error":null}`,
		`{"jsonrpc":"2.0","id":%d,"result":"` + strings.Repeat("long", 1000) + `"}`} {
		id := int64(3 + i)
		p.expectResponse(id)
		p.writeLine(`{"id":%d,"level":"info"}`, id) // a log line
		p.writeLine(line, 9)                        // an id without a request
		p.writeLine(line, id)
		p.writeLine(line, id) // the request has its response already
		r := p.nextControlMessage().(*sdkrpc.Response)
		require.Equal(t, id, r.ID.Raw())
		require.ErrorContains(t, r.Error, []string{"neither a result nor an error", "neither a result nor an error", "longer than 1000 bytes"}[i])
	}
	require.Eventually(t, func() bool { return p.discarded.Counts() == mcpvisor.Discarded{Malformed: 7, Oversize: 3} }, transporttest.Patience, transporttest.TimeStep)
	p.control.mu.Lock()
	defer p.control.mu.Unlock()
	require.Empty(t, p.control.inbox, "one response for each request")
}

// TestControlChannel_repaired_response_is_copied: lines that are read later do not
// overwrite a response that was repaired.
func TestControlChannel_repaired_response_is_copied(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	want := `{"a":"` + strings.Repeat("a", 3000) + `"}`
	p.expectResponse(1)
	p.writeLine(`{"id":1,"result":%s}`, want) // the member "jsonrpc" is missing
	const lines = 2 * jsonrpc.ReadBufferSize / 100
	for range lines {
		p.writeLine("%s", strings.Repeat("X", 100))
	}
	require.Eventually(t, func() bool { return p.discarded.Counts().Malformed == lines }, transporttest.Patience, transporttest.TimeStep)
	require.JSONEq(t, want, string(p.nextControlMessage().(*sdkrpc.Response).Result))
}

// TestControlChannel_accepts_ids_as_strings: some servers return numeric ids as strings.
func TestControlChannel_accepts_ids_as_strings(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	unmatched := uint64(0)
	for _, id := range []string{`3`, `"3"`, `3.0`, `"3.0"`} {
		for _, message := range []string{`{"jsonrpc":"2.0","id":%s,"result":{}}`, `{"id":%s,"result":{}}`, `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"m"}}`,
			`{"id":%s,"error":{"code":1,"message":"m"}}`} {
			p.expectResponse(3)
			p.writeLine(message, id)
			p.writeLine(message, id) // unmatched: the request has its response already
			r := p.nextControlMessage().(*sdkrpc.Response)
			require.Equal(t, int64(3), r.ID.Raw())
			if strings.Contains(message, "error") {
				require.ErrorContains(t, r.Error, "m")
			} else {
				require.NoError(t, r.Error)
			}
			unmatched++
			require.Eventually(t, func() bool { return p.discarded.Counts().Unmatched == unmatched }, transporttest.Patience, transporttest.TimeStep)
		}
	}
	p.writeLine(`{"jsonrpc":"2.0","id":"3","method":"ping"}`)
	require.Equal(t, `"3"`, string(p.readRefusal().ID), "a request has the id that its answer must have")
}

// TestHandshake_with_ids_as_strings: a whole handshake with a server that returns
// numeric ids as strings.
func TestHandshake_with_ids_as_strings(t *testing.T) {
	quoting := func(_ io.Writer, e jsonrpc.Envelope) string {
		if string(e.Method) == `"initialize"` {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","result":{"protocolVersion":"2025-06-18","capabilities":{}}}`, e.ID)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","error":{"code":-32601,"message":"no"}}`, e.ID)
	}
	s := openMemory(t, replyServer(quoting))
	require.Equal(t, "2025-06-18", s.Info().ProtocolVersion)
}
