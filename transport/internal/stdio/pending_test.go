package stdio

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestDeadlines: each request is given up at its own deadline, never before,
// and at most a few milliseconds later; the server is told.
func TestDeadlines(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		timeouts := []time.Duration{time.Hour, time.Second, 3 * time.Second, time.Second + time.Millisecond, time.Millisecond, 0,
			3*time.Second - 1, 2 * time.Minute, time.Second, time.Nanosecond}
		type end struct {
			outcome
			after time.Duration
		}
		ends := make([]chan end, len(timeouts))
		for i, timeout := range timeouts {
			ends[i] = make(chan end, 1)
			start := time.Now()
			ended := p.ask(t.Context(), transport.Request{Method: "m", Timeout: timeout})
			go func() { ends[i] <- end{<-ended, time.Since(start)} }()
		}
		canceled := make(chan int64, len(timeouts))
		keep := make(chan int64, 1) // the request without a deadline
		go func() {
			asked := 0
			open := map[int64]bool{}
			for asked < len(timeouts) || len(open) > 1 {
				m := p.read()
				if m.Method == "m" {
					asked++
					open[m.ID] = true
					continue
				}
				var id int64
				_, _ = fmt.Sscanf(string(m.Params), `{"requestId":%d,"reason":"timed out"}`, &id)
				delete(open, id)
				canceled <- id
			}
			for id := range open {
				keep <- id
			}
		}()
		for i, timeout := range timeouts {
			if timeout == 0 {
				continue
			}
			got := <-ends[i]
			require.NotNil(t, got.err, "timeout %v", timeout)
			require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
			require.GreaterOrEqual(t, got.after, timeout)
			require.LessOrEqual(t, got.after, timeout+5*time.Millisecond, "timeout %v", timeout)
		}
		id := <-keep
		require.Len(t, canceled, len(timeouts)-1)
		require.Len(t, p.table.Open, 1)
		time.Sleep(24 * time.Hour)
		p.say(`{"id":%d,"result":"at last"}`, id)
		require.Equal(t, outcome{result: `"at last"`}, (<-ends[5]).outcome)
		require.GreaterOrEqual(t, len(canceled), 1)
	})
}

// TestDeadlineOfAnUnsentRequest: with a deaf server nothing was sent, and
// nothing is to be recalled.
func TestDeadlineOfAnUnsentRequest(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		first := p.ask(t.Context(), transport.Request{Method: "first"})
		synctest.Wait() // it is being written, and stays that
		start := time.Now()
		got := <-p.ask(t.Context(), transport.Request{Method: "second", Timeout: time.Minute})
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, mcpvisor.KindTimeout, got.err.Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, got.err.Outcome)
		require.True(t, got.err.Retryable())

		m := p.read()
		require.Equal(t, "first", m.Method)
		p.say(`{"id":%d,"result":1}`, m.ID)
		require.Equal(t, outcome{result: "1"}, <-first)
		third := p.ask(t.Context(), transport.Request{Method: "third"})
		m = p.read()
		require.Equal(t, "third", m.Method, "neither the second nor its cancellation")
		p.say(`{"id":%d,"result":3}`, m.ID)
		require.Equal(t, outcome{result: "3"}, <-third)
	})
}

// TestLateAnswers are dropped and counted, and never given to another call.
func TestLateAnswers(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		var late []int64
		for range 5 {
			ended := p.ask(t.Context(), transport.Request{Method: "m", Timeout: time.Second})
			late = append(late, p.read().ID)
			read := make(chan transporttest.Message, 1)
			go func() { read <- p.read() }()
			require.Equal(t, mcpvisor.OutcomeUnknown, (<-ended).err.Outcome)
			require.Equal(t, "notifications/cancelled", (<-read).Method)
		}
		ended := p.ask(t.Context(), transport.Request{Method: "m", Timeout: time.Minute})
		id := p.read().ID
		require.NotContains(t, late, id)
		for _, old := range late {
			p.say(`{"id":%d,"result":"late"}`, old)
		}
		p.say(`{"id":%d,"result":"mine"}`, id)
		require.Equal(t, outcome{result: `"mine"`}, <-ended)
		require.Equal(t, mcpvisor.Discarded{Unmatched: 5}, p.noise.Counts())
		require.Empty(t, p.table.Open)
	})
}

// TestAnswerBeforeTheQuestion: a server that guesses ids answers nothing that
// it was not sent.
func TestAnswerBeforeTheQuestion(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		first := p.ask(t.Context(), transport.Request{Method: "first"})
		synctest.Wait()
		second := p.ask(t.Context(), transport.Request{Method: "second"})
		synctest.Wait()
		p.say(`{"id":%d,"result":"forged"}`, p.table.IDs.Last())
		p.tell(p.table.IDs.Last(), 1) // there is no progress of it either
		synctest.Wait()
		for _, ended := range []<-chan outcome{first, second} {
			m := p.read()
			p.say(`{"id":%d,"result":%q}`, m.ID, m.Method)
			require.Equal(t, outcome{result: `"` + m.Method + `"`}, <-ended)
		}
		require.Equal(t, mcpvisor.Discarded{Unmatched: 2}, p.noise.Counts())
	})
}

// TestNoTimerOutlivesTheWire: the bubble would tell.
func TestNoTimerOutlivesTheWire(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		p := newPeer(t, memoryPipe, 1<<20)
		start := time.Now()
		ended := p.ask(t.Context(), transport.Request{Method: "m", Timeout: time.Hour})
		p.read()
		time.Sleep(time.Minute)
		p.die(errEnded)
		got := <-ended
		require.Equal(t, mcpvisor.KindCrashed, got.err.Kind)
		require.Equal(t, time.Minute, time.Since(start))
		require.True(t, p.table.TimerStopped(), "the sweeper is stopped")
	})
}

// TestEveryRequestEndsOnce: answers, deadlines, cancellation and death at the
// same time.
func TestEveryRequestEndsOnce(t *testing.T) {
	for range 20 {
		p := newPeer(t, osPipe, 1<<20)
		var all []<-chan outcome
		for i := range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			r := transport.Request{Method: "m"}
			if i%3 == 0 {
				r.Timeout = time.Duration(i) * 50 * time.Microsecond
			}
			all = append(all, p.ask(ctx, r))
			if i%4 == 1 {
				time.AfterFunc(time.Duration(i)*30*time.Microsecond, cancel)
			} else {
				defer cancel()
			}
		}
		for range 20 {
			if m := p.read(); m.Method == "m" && m.ID%2 == 0 {
				p.say(`{"id":%d,"result":%d}`, m.ID, m.ID)
			}
		}
		p.die(errEnded)
		for _, ended := range all {
			if got := <-ended; got.err == nil {
				require.NotEmpty(t, got.result)
			}
		}
		require.Empty(t, p.table.Open)
	}
}
