package stdio

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestAnAnswerThatHasComeCounts: whoever leaves while his answer is there gets
// that, and all that was reported before it. Nothing of it is left for the next
// call.
func TestAnAnswerThatHasComeCounts(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		for range 30 { // what comes first is chance
			transporttest.InBubble(t, func(t *testing.T) {
				p := newPeer(t, memoryPipe, 1<<20)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				told, listen := make(chan struct{}), make(chan struct{})
				heard := 0
				ended := p.ask(ctx, transport.Request{Method: "m", Track: true, Progress: func(mcpvisor.Progress) {
					if heard++; heard == 1 {
						close(told)
						<-listen
					}
				}})
				id := p.read().ID
				p.tell(id, 1)
				<-told
				p.tell(id, 2)
				p.say(`{"id":%d,"result":"old"}`, id)
				synctest.Wait() // all of that has been read
				if leaves {
					cancel()
				}
				close(listen)
				require.Equal(t, outcome{result: `"old"`}, <-ended)
				require.Equal(t, 2, heard)

				next := p.ask(t.Context(), transport.Request{Method: "next"})
				p.say(`{"id":%d,"result":"new"}`, p.read().ID)
				require.Equal(t, outcome{result: `"new"`}, <-next)
			})
		}
	}
}

// TestClocksAreOnesOwn: a request is given the memory of an earlier one, and not
// its time.
func TestClocksAreOnesOwn(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		for range 20 {
			first := p.ask(t.Context(), transport.Request{Method: "first", Timeout: time.Second, TotalTimeout: time.Second})
			p.say(`{"id":%d,"result":1}`, p.read().ID)
			require.Equal(t, outcome{result: "1"}, <-first)
			time.Sleep(2 * time.Second)
			second := p.ask(t.Context(), transport.Request{Method: "second", Timeout: time.Minute})
			id := p.read().ID
			time.Sleep(30 * time.Second)
			p.say(`{"id":%d,"result":2}`, id)
			require.Equal(t, outcome{result: "2"}, <-second)
		}
	})
}

// TestTheHardMaximumAlone bounds a request that may be idle.
func TestTheHardMaximumAlone(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		began := time.Now()
		ended := p.ask(t.Context(), transport.Request{Method: "m", TotalTimeout: time.Minute})
		p.read()
		read := make(chan transporttest.Message, 1)
		go func() { read <- p.read() }()
		got := <-ended
		require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
		require.InDelta(t, time.Minute, time.Since(began), float64(jsonrpc.SweepGrain))
		require.Equal(t, "notifications/cancelled", (<-read).Method)
	})
}

// TestErrorsOfAStreamAreVeiled: servers repeat what they were given.
func TestErrorsOfAStreamAreVeiled(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	p.redactor = strings.NewReplacer(transporttest.Secret, "***").Replace
	ended := p.ask(t.Context(), transport.Request{Method: "m"})
	p.say(`{"id":%d,"error":{"code":1,"message":"bad key %s","data":["%[2]s"]}}`, p.read().ID, transporttest.Secret)
	got := <-ended
	require.Contains(t, got.err.Error(), "bad key ***")
	raw, err := json.Marshal(got.err.Cause)
	require.NoError(t, err)
	require.NotContains(t, string(raw), transporttest.Secret)
	require.NotContains(t, got.err.Error(), transporttest.Secret)
}
