package stdio

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// Whoever is told has panicked: it is not told again, the server hears that
// nobody waits, and nothing of the call is kept.
func TestProgressThatPanics(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	told, leave := make(chan struct{}), make(chan struct{})
	calls := 0
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = p.request(t.Context(), transport.Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
			if calls++; calls == 1 {
				close(told)
				<-leave
			}
			panic("of the host")
		}}, nil)
	}()
	id := p.read().ID
	p.tell(id, 1)
	<-told
	p.tell(id, 2)
	other := p.ask(t.Context(), transport.Request{Method: "other"})
	p.say(`{"id":%d,"result":1}`, p.read().ID)
	require.Equal(t, "1", (<-other).result) // so that was read
	close(leave)
	require.Equal(t, "notifications/cancelled", p.read().Method)
	require.Equal(t, "of the host", <-panicked)
	require.Equal(t, 1, calls)
	p.table.Mu.Lock()
	defer p.table.Mu.Unlock()
	require.Empty(t, p.table.Open)
}

// A server that is quicker than the one it reports to does not fill the memory of
// the host.
func TestProgressIsBoundedInBytes(t *testing.T) {
	p := newPeer(t, memoryPipe, 4<<20)
	in, leave := make(chan struct{}), make(chan struct{})
	longest, all, first := 0, 0, true
	ended := p.ask(t.Context(), transport.Request{Method: "m", Track: true, Progress: func(r mcpvisor.Progress) {
		if first {
			first = false
			close(in)
			<-leave
		}
		longest, all = max(longest, len(r.Message)), all+len(r.Message)
	}})
	id := p.read().ID
	p.tell(id, 1)
	<-in
	for range 200 {
		p.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1,"message":"%s"}}`, id, strings.Repeat("x", 32<<10))
	}
	p.say(`{"id":%d,"result":1}`, id)
	close(leave)
	require.Equal(t, "1", (<-ended).result)
	require.LessOrEqual(t, longest, jsonrpc.MaxProgressMessage)
	require.LessOrEqual(t, all, jsonrpc.MaxQueuedProgress+jsonrpc.MaxProgressMessage)
	require.Greater(t, all, jsonrpc.MaxQueuedProgress/2)
	require.Positive(t, p.noise.Counts().Dropped)
}
