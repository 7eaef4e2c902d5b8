package stdio

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestErrorWithoutID: an error without an id fails the only request in flight, unless that is
// answered in time. Whether the server works on the request is not known.
func TestErrorWithoutID(t *testing.T) {
	const parseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`
	for name, line := range map[string]string{
		"null":    parseError,
		"missing": `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, osPipe, 1<<20)
			ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
			id := p.readMessage().ID
			p.writeLine("%s", line)
			got := <-ended
			require.Equal(t, mcpvisor.KindRPC, got.err.Kind)
			require.Equal(t, mcpvisor.OutcomeUnknown, got.err.Outcome)
			require.ErrorContains(t, got.err, "Parse error")
			require.Zero(t, p.discarded.Counts())
			require.Contains(t, string(p.readMessage().Params), fmt.Sprintf(`"requestId":%d`, id), "the request is canceled")
		})
	}
	t.Run("before_the_answer", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		id := p.readMessage().ID
		p.writeLine("%s\n%s\n"+`{"id":%d,"result":1}`, parseError, parseError, id)
		require.Equal(t, outcome{result: "1"}, <-ended)
		require.Equal(t, mcpvisor.Discarded{Unmatched: 1}, p.discarded.Counts(), "the second one is only recorded")
	})
	t.Run("before_progress", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, memoryPipe, 1<<20)
			ended := p.startRequest(t.Context(), transport.Request{Method: "m", Track: true, Timeout: time.Minute})
			id := p.readMessage().ID
			p.writeLine(parseError)
			p.writeProgress(id, 1) // the tool runs
			time.Sleep(30 * time.Second)
			p.writeLine(`{"id":%d,"result":1}`, id)
			require.Equal(t, outcome{result: "1"}, <-ended)

			ended = p.startRequest(t.Context(), transport.Request{Method: "m", Track: true, Timeout: time.Minute})
			id = p.readMessage().ID
			p.writeLine(parseError)
			p.writeProgress(id, 1)
			go p.readMessage()
			require.Equal(t, mcpvisor.KindTimeout, (<-ended).err.Kind)
			synctest.Wait()
		})
	})
	t.Run("before_a_handler_of_the_host", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, answered := range []bool{true, false} {
				p := newPeer(t, memoryPipe, 1<<20)
				ended := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
				id := p.readMessage().ID
				p.writeLine(parseError)
				synctest.Wait()
				restart := p.table.PauseClocks(0) // the server requests an input: it works on the call
				time.Sleep(300 * time.Millisecond)
				restart(answered)
				time.Sleep(59 * time.Second)
				p.writeLine(`{"id":%d,"result":1}`, id)
				require.Equal(t, outcome{result: "1"}, <-ended, "the idle limit is what it was")
			}
		})
	})
	t.Run("several_in_flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newPeer(t, memoryPipe, 1<<20)
			var log strings.Builder
			p.serverRequests.Handler = inbound.NewHandlerPool("s", transport.Options{Logger: zerolog.New(&log)}).NewHandler(jsonrpc.NewLifetime())
			first := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
			p.readMessage()
			second := p.startRequest(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
			p.readMessage()
			for range 10 {
				p.writeLine(parseError)
			}
			go func() { p.readMessage(); p.readMessage() }()
			defer synctest.Wait()
			for _, ended := range []<-chan outcome{first, second} {
				got := <-ended
				require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
				require.ErrorContains(t, got.err, "an error that names no request: Parse error")
			}
			require.Equal(t, mcpvisor.Discarded{Unmatched: 10}, p.discarded.Counts())
			require.Equal(t, 1, strings.Count(log.String(), "Parse error"))
		})
	})
	t.Run("beside_an_open_stream", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		stream := p.startRequest(t.Context(), transport.Request{Method: "subscriptions/listen", Stream: &transport.Stream{}})
		id := p.readMessage().ID
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		p.readMessage()
		p.writeLine(parseError)
		require.ErrorContains(t, (<-ended).err, "Parse error")
		p.writeLine(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-stream)
	})
	t.Run("about_a_notification", func(t *testing.T) {
		p := newPeer(t, osPipe, 1<<20)
		ended := p.startRequest(t.Context(), transport.Request{Method: "m"})
		id := p.readMessage().ID
		p.writeLine(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}`)
		p.writeLine(`{"error":{"code":-32700,"message":"a line of a log"}}`)
		p.writeLine(`{"jsonrpc":"2.0","error":"a line of a log"}`)
		p.writeLine(`{"id":%d,"result":1}`, id)
		require.Equal(t, outcome{result: "1"}, <-ended)
		require.Equal(t, mcpvisor.Discarded{Unmatched: 1, Malformed: 2}, p.discarded.Counts())
	})
	t.Run("in_the_handshake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d, err := dialPipes(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: replyServer(func(io.Writer, jsonrpc.Envelope) string {
				return parseError
			})}}, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
			require.NoError(t, err)
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			began := time.Now()
			require.ErrorContains(t, s.Open(t.Context()), "Parse error")
			require.Less(t, time.Since(began), time.Second)
		})
	})
}
