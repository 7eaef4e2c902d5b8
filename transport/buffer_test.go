package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// filler is the result of a call with a large answer.
func filler(size int) string {
	return `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
}

// crowded is a session with a partner, and room for one large message.
func crowded(p *partner) (*pipedSession, *budget.Budget) {
	spec := mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: p.serve}, Limits: mcpvisor.Limits{MaxBufferBytes: 1 << 20}}
	d, err := NewDialer(spec, Options{ClientInfo: testInfo, Logger: zerolog.Nop()})
	require.NoError(p.t, err)
	s := d.NewSession().(*pipedSession)
	require.NoError(p.t, s.Open(p.t.Context()))
	return s, d.(*pipedDialer).buffer
}

type answered struct {
	result json.RawMessage
	err    error
}

// calling makes a call in a goroutine of its own.
func calling(ctx context.Context, s Session, held *budget.Share) <-chan answered {
	done := make(chan answered, 1)
	go func() {
		r := toolCall
		r.Held = held
		result, err := s.Request(ctx, r)
		done <- answered{result, err}
	}()
	return done
}

func requireFailed(t *testing.T, done <-chan answered, kind error) {
	t.Helper()
	got := <-done
	require.ErrorIs(t, got.err, kind)
}

// Large answers on one pipe wait for each other; small ones before them do not.
func TestPipedBuffer(t *testing.T) {
	// held is a session on which one large answer is held by its caller, and
	// another one is about to come.
	held := func(t *testing.T, f func(p *partner, s *pipedSession, b *budget.Budget, one *budget.Share, second said, two <-chan answered)) {
		synctest.Test(t, func(t *testing.T) {
			p := newPartner(t, false)
			s, b := crowded(p)
			one := new(budget.Share)
			first := calling(t.Context(), s, one)
			p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.next("tools/call").ID, filler(2<<20))
			got := <-first
			require.NoError(t, got.err)
			require.True(t, bytes.Equal(got.result, []byte(filler(2<<20))), "the result is whole")
			require.Greater(t, b.Used(), int64(2<<20))
			two := calling(t.Context(), s, nil)
			f(p, s, b, one, p.next("tools/call"), two)
			one.Release()
			endSession(t, s)
			require.Zero(t, b.Used(), "everything is given back")
		})
	}
	say := func(p *partner, m said, size int) {
		go p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, filler(size))
	}
	t.Run("waits for the caller before", func(t *testing.T) {
		held(t, func(p *partner, s *pipedSession, b *budget.Budget, one *budget.Share, second said, two <-chan answered) {
			t := p.t
			say(p, second, 2<<20)
			synctest.Wait()
			require.Equal(t, 1, b.Waiting())
			one.Release()
			require.NoError(t, (<-two).err)
		})
	})
	t.Run("small answers do not wait", func(t *testing.T) {
		held(t, func(p *partner, _ *pipedSession, b *budget.Budget, _ *budget.Share, second said, two <-chan answered) {
			t := p.t
			say(p, second, 1000)
			require.NoError(t, (<-two).err)
			require.Zero(t, b.Waiting())
		})
	})
	t.Run("skipped when nobody makes room, and the session lives on", func(t *testing.T) {
		held(t, func(p *partner, s *pipedSession, b *budget.Budget, _ *budget.Share, second said, two <-chan answered) {
			t := p.t
			began := time.Now()
			say(p, second, 2<<20)
			got := <-two
			require.ErrorIs(t, got.err, mcpvisor.ErrOverloaded)
			require.ErrorContains(t, got.err, "Limits.MaxBufferBytes")
			require.InDelta(t, bufferTimeout, time.Since(began), float64(time.Second))
			require.Less(t, time.Since(s.LastHeard()), 2*bufferSignInterval, "the server was alive all the while")
			three := calling(t.Context(), s, nil)
			say(p, p.next("tools/call"), 10)
			require.NoError(t, (<-three).err)
		})
	})
	t.Run("the end does not wait", func(t *testing.T) {
		held(t, func(p *partner, s *pipedSession, b *budget.Budget, _ *budget.Share, second said, two <-chan answered) {
			t := p.t
			say(p, second, 2<<20)
			synctest.Wait()
			require.Equal(t, 1, b.Waiting())
			s.Abort(errGivenUp)
			requireFailed(t, two, mcpvisor.ErrClosed)
			began := time.Now()
			<-s.Released()
			require.Less(t, time.Since(began), bufferTimeout)
		})
	})
	t.Run("a caller that has left", func(t *testing.T) {
		held(t, func(p *partner, s *pipedSession, b *budget.Budget, one *budget.Share, second said, two <-chan answered) {
			t := p.t
			one.Release()
			ctx, cancel := context.WithCancel(t.Context())
			three := calling(ctx, s, nil)
			third := p.next("tools/call")
			cancel()
			requireFailed(t, three, mcpvisor.ErrCanceled)
			p.next("notifications/cancelled")
			say(p, third, 2<<20)
			synctest.Wait()
			say(p, second, 10)
			require.NoError(t, (<-two).err)
			require.Zero(t, b.Used())
		})
	})
}

// Over HTTP, half read bodies do not wait for each other forever, whoever leaves
// gives back what it holds, and nothing is left at the end.
func TestHTTPBuffer(t *testing.T) {
	const size, calls = 1 << 20, 8
	for name, events := range map[string]bool{"bodies": false, "events": true} {
		t.Run(name, func(t *testing.T) {
			web := newScripted(t)
			web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				if events {
					sayEvents(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, filler(size))
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, filler(size))
			})
			spec := httpSpec(web.URL)
			spec.Limits.MaxBufferBytes = size / 2
			s := openHTTP(t, spec)
			buffer := s.exchanges.buffer

			one := new(budget.Share)
			require.NoError(t, (<-calling(t.Context(), s, one)).err)
			require.Greater(t, buffer.Used(), int64(size))
			ctx, cancel := context.WithCancel(t.Context())
			left := calling(ctx, s, nil)
			require.Eventually(t, func() bool { return buffer.Waiting() == 1 }, patience, timeStep)
			cancel()
			requireFailed(t, left, mcpvisor.ErrCanceled)
			require.Eventually(t, func() bool { return buffer.Waiting() == 0 }, patience, timeStep)

			var all []<-chan answered
			for range calls {
				all = append(all, calling(t.Context(), s, nil))
			}
			require.Eventually(t, func() bool { return buffer.Waiting() == calls }, patience, timeStep)
			require.Less(t, buffer.Used(), int64(3*size), "what waits holds little")
			one.Release()
			for _, done := range all {
				got := <-done
				require.NoError(t, got.err)
				require.True(t, bytes.Equal(got.result, []byte(filler(size))), "the result is whole")
			}
			require.Zero(t, buffer.Used(), "everything is given back")
		})
	}
}

// The same on the one stream of HTTP+SSE.
func TestSSEBuffer(t *testing.T) {
	web := newSSEServer(t)
	web.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.WriteHeader(http.StatusAccepted)
		web.send("%s", `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+filler(2<<20)+`}`)
	})
	spec := sseSpec(web)
	spec.Limits.MaxBufferBytes = 1 << 20
	s := openHTTP(t, spec)
	buffer := s.exchanges.buffer
	one := new(budget.Share)
	require.NoError(t, (<-calling(t.Context(), s, one)).err)
	require.Positive(t, buffer.Used())
	two := calling(t.Context(), s, nil)
	require.Eventually(t, func() bool { return buffer.Waiting() == 1 }, patience, timeStep)
	one.Release()
	require.NoError(t, (<-two).err)
	require.Eventually(t, func() bool { return buffer.Used() == 0 }, patience, timeStep)
}
