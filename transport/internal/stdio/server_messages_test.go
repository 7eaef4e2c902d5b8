package stdio

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestServerMessages_limits_server_requests: maxServerRequests requests of the server may
// be without a response. Further ones are refused until one is answered.
func TestServerMessages_limits_server_requests(t *testing.T) {
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
	for n := range maxServerRequests {
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
	require.Equal(t, mcpvisor.Discarded{Malformed: maxServerRequests + 1}, p.discarded.Counts())
	close(leave)
	for range maxServerRequests {
		p.readMessage()
	}
	require.Eventually(t, func() bool {
		return p.serverRequests.Idle()
	}, transporttest.Patience, transporttest.TimeStep)
	elicit("7") // admitted: there is room again
	require.EqualValues(t, 7, p.readMessage().ID)
}

// TestServerMessages_drops_refusals_unread_by_the_server: if the server does not read,
// refusals are dropped and not queued without bound.
func TestServerMessages_drops_refusals_unread_by_the_server(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	const requests = 4 * maxServerRequests
	for n := range requests {
		p.writeLine(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, n)
	}
	const least = requests - maxServerRequests - maxServerRequests - maxBatchBytes/len(`{"jsonrpc":"2.0","id":1,"error":{}}`)
	require.Eventually(t, func() bool { return p.discarded.Counts().Dropped >= uint64(least) }, transporttest.Patience, transporttest.TimeStep)
	p.table.Mu.Lock()
	defer p.table.Mu.Unlock()
	require.LessOrEqual(t, len(p.conn.out.queue), 2*maxServerRequests, "responses, and refusals")
}

// TestServerMessages_flood_from_a_server_that_reads_nothing: the goroutines and the
// memory for requests of the server are bounded, and calls in flight are served.
func TestServerMessages_flood_from_a_server_that_reads_nothing(t *testing.T) {
	var flood []string
	for n := range 4 * maxServerRequests {
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
	require.LessOrEqual(t, asked.Count(), maxServerRequests)
}

// TestServerMessages_refuses_methods_of_servers: a method that only servers implement is
// refused. The client of the go-sdk would send it back to the server.
func TestServerMessages_refuses_methods_of_servers(t *testing.T) {
	p := newPeer(t, osPipe, 1<<20)
	p.writeLine(`{"jsonrpc":"2.0","id":4,"method":"completion/complete","params":{}}`)
	r := p.readRefusal()
	require.Equal(t, "4", string(r.ID))
	require.EqualValues(t, sdkrpc.CodeMethodNotFound, r.Error.Code)
}
