package stdio

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// tell sends progress about a request.
func (p *peer) tell(id int64, step int) {
	p.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d,"total":9,"message":"step %d"}}`,
		id, step, step)
}

// TestProgressRestartsTheClock: but never past the hard maximum, and only that
// of the request it is about.
func TestProgressRestartsTheClock(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		start := time.Now()
		ended := p.ask(t.Context(), transport.Request{Method: "long", Track: true, Timeout: time.Minute, TotalTimeout: 150 * time.Second})
		var took time.Duration
		long := make(chan outcome)
		go func() {
			got := <-ended
			took = time.Since(start)
			long <- got
		}()
		id := p.read().ID
		other := p.ask(t.Context(), transport.Request{Method: "other", Track: true, Timeout: time.Minute, TotalTimeout: 10 * time.Minute})
		otherID := p.read().ID
		read := make(chan transporttest.Message, 2)
		go func() { read <- p.read(); read <- p.read() }() // the cancellations
		for step := range 3 {
			time.Sleep(50 * time.Second)
			p.tell(id, step)
			if step == 1 {
				got := <-other
				require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
				require.LessOrEqual(t, time.Since(start), 101*time.Second)
				require.Contains(t, string((<-read).Params), fmt.Sprint(otherID))
			}
		}
		got := <-long
		require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
		require.Equal(t, mcpvisor.OutcomeUnknown, got.err.Outcome)
		require.InDelta(t, 150*time.Second, took, float64(10*time.Millisecond))
		require.Contains(t, string((<-read).Params), fmt.Sprint(id))
	})
}

// TestProgressReachesTheCaller: all of it, in order, before the call returns.
func TestProgressReachesTheCaller(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	var heard []mcpvisor.Progress
	ended := p.ask(t.Context(), transport.Request{Method: "m", Track: true,
		Progress: func(r mcpvisor.Progress) { heard = append(heard, r) }})
	id := p.read().ID
	for step := range 50 {
		p.tell(id, step)
	}
	p.say(`{"id":%d,"result":1}`, id)
	require.Equal(t, "1", (<-ended).result)
	require.Len(t, heard, 50)
	for step, r := range heard {
		require.Equal(t, mcpvisor.Progress{Progress: float64(step), Total: 9, Message: fmt.Sprintf("step %d", step)}, r)
	}
}

// TestProgressIsHeardOnTheWay, and a caller that is slow to hear it holds up
// nobody else.
func TestProgressIsHeardOnTheWay(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	hears, goOn := make(chan struct{}), make(chan struct{})
	slow := p.ask(t.Context(), transport.Request{Method: "slow", Track: true, Progress: func(mcpvisor.Progress) {
		hears <- struct{}{}
		<-goOn
	}})
	id := p.read().ID
	p.tell(id, 1)
	<-hears // before there is an answer
	quick := p.ask(t.Context(), transport.Request{Method: "quick"})
	p.say(`{"id":%d,"result":2}`, p.read().ID)
	require.Equal(t, "2", (<-quick).result)
	p.say(`{"id":%d,"result":1}`, id)
	close(goOn)
	require.Equal(t, "1", (<-slow).result)
}

func TestProgressOfNothing(t *testing.T) {
	p := newPeer(t, memoryPipe, 1<<20)
	for _, params := range []string{`{"progressToken":1,"progress":1}`, `{"progressToken":1099511627999,"progress":1}`} {
		p.say(`{"method":"notifications/progress","params":%s}`, params)
	}
	for _, params := range []string{`{}`, `[]`, `null`, `{"progressToken":{},"progress":1}`, `{"progressToken":1,"progress":"much"}`,
		`{"progressToken":1.5}`} {
		p.say(`{"method":"notifications/progress","params":%s}`, params)
	}
	p.say(`{"method":"notifications/progress"}`)
	ended := p.ask(t.Context(), transport.Request{Method: "m", Track: true})
	p.say(`{"id":%d,"result":1}`, p.read().ID)
	require.Equal(t, "1", (<-ended).result)
	require.Equal(t, mcpvisor.Discarded{Unmatched: 2, Malformed: 7}, p.noise.Counts())
}
