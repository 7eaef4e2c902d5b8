package stdio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// openWithSmallBuffer opens a session whose buffer has room for one large message.
func openWithSmallBuffer(p *transporttest.Partner) (*session, *budget.Budget) {
	spec := mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: p.Serve}, Limits: mcpvisor.Limits{MaxBufferBytes: 1 << 20}}
	d := NewDialer(spec, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
	s := d.NewSession().(*session)
	require.NoError(p.T, s.Open(p.T.Context()))
	return s, d.(*dialer).buffer
}

// TestBuffer checks that large responses on one connection wait for memory, and that
// small responses before them do not.
func TestBuffer(t *testing.T) {
	// held calls f with a session in which the caller of one request holds a large
	// result, and the server is about to answer another request.
	held := func(t *testing.T, f func(p *transporttest.Partner, s *session, b *budget.Budget, one *budget.Share, second transporttest.ClientMessage, two <-chan transporttest.Answered)) {
		synctest.Test(t, func(t *testing.T) {
			p := newPartner(t, false)
			s, b := openWithSmallBuffer(p)
			one := new(budget.Share)
			first := transporttest.StartRequest(t.Context(), s, one)
			p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.Next("tools/call").ID, transporttest.Filler(2<<20))
			got := <-first
			require.NoError(t, got.Err)
			require.True(t, bytes.Equal(got.Result, []byte(transporttest.Filler(2<<20))), "the result is whole")
			require.Greater(t, b.Used(), int64(2<<20))
			two := transporttest.StartRequest(t.Context(), s, nil)
			f(p, s, b, one, p.Next("tools/call"), two)
			one.Release()
			transporttest.EndSession(t, s)
			require.Zero(t, b.Used(), "all memory is released")
		})
	}
	say := func(p *transporttest.Partner, m transporttest.ClientMessage, size int) {
		go p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, transporttest.Filler(size))
	}
	t.Run("waits for the caller of the earlier request", func(t *testing.T) {
		held(t, func(p *transporttest.Partner, s *session, b *budget.Budget, one *budget.Share, second transporttest.ClientMessage, two <-chan transporttest.Answered) {
			t := p.T
			say(p, second, 2<<20)
			synctest.Wait()
			require.Equal(t, 1, b.Waiting())
			one.Release()
			require.NoError(t, (<-two).Err)
		})
	})
	t.Run("small answers do not wait", func(t *testing.T) {
		held(t, func(p *transporttest.Partner, _ *session, b *budget.Budget, _ *budget.Share, second transporttest.ClientMessage, two <-chan transporttest.Answered) {
			t := p.T
			say(p, second, 1000)
			require.NoError(t, (<-two).Err)
			require.Zero(t, b.Waiting())
		})
	})
	t.Run("skipped if no memory becomes free, and the session continues", func(t *testing.T) {
		held(t, func(p *transporttest.Partner, s *session, b *budget.Budget, _ *budget.Share, second transporttest.ClientMessage, two <-chan transporttest.Answered) {
			t := p.T
			began := time.Now()
			say(p, second, 2<<20)
			got := <-two
			require.ErrorIs(t, got.Err, mcpvisor.ErrOverloaded)
			require.ErrorContains(t, got.Err, "Limits.MaxBufferBytes")
			require.Equal(t, mcpvisor.Discarded{Dropped: 1}, s.Info().Discarded, "the message is not longer than its limit")
			require.InDelta(t, jsonrpc.BufferTimeout, time.Since(began), float64(time.Second))
			require.Less(t, time.Since(s.LastReceived()), 2*jsonrpc.BufferSignInterval, "the wait for memory must not look like a silent server")
			three := transporttest.StartRequest(t.Context(), s, nil)
			say(p, p.Next("tools/call"), 10)
			require.NoError(t, (<-three).Err)
		})
	})
	t.Run("the end of the session does not wait", func(t *testing.T) {
		held(t, func(p *transporttest.Partner, s *session, b *budget.Budget, _ *budget.Share, second transporttest.ClientMessage, two <-chan transporttest.Answered) {
			t := p.T
			say(p, second, 2<<20)
			synctest.Wait()
			require.Equal(t, 1, b.Waiting())
			s.Abort(transporttest.ErrGivenUp)
			transporttest.RequireFailed(t, two, mcpvisor.ErrClosed)
			began := time.Now()
			<-s.Released()
			require.Less(t, time.Since(began), jsonrpc.BufferTimeout)
		})
	})
	t.Run("a response to a canceled call takes no memory", func(t *testing.T) {
		held(t, func(p *transporttest.Partner, s *session, b *budget.Budget, one *budget.Share, second transporttest.ClientMessage, two <-chan transporttest.Answered) {
			t := p.T
			one.Release()
			ctx, cancel := context.WithCancel(t.Context())
			three := transporttest.StartRequest(ctx, s, nil)
			third := p.Next("tools/call")
			cancel()
			transporttest.RequireFailed(t, three, mcpvisor.ErrCanceled)
			p.Next("notifications/cancelled")
			say(p, third, 2<<20)
			synctest.Wait()
			say(p, second, 10)
			require.NoError(t, (<-two).Err)
			require.Zero(t, b.Used())
		})
	})
}

// TestBuffer_released_after_crash: the budget outlives the sessions of its server. A
// session that ends while it reads a large response releases the memory of that
// response.
func TestBuffer_released_after_crash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := budget.New(1<<30, nil)
		p := newPartner(t, false)
		spec := mcpvisor.ServerSpec{Name: "m", Limits: mcpvisor.Limits{MaxBufferBytes: 1 << 20},
			InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
				ended := make(chan error, 1)
				go func() { ended <- p.Serve(ctx, in, out, stderr) }()
				select {
				case m := <-p.Received:
					fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"a":"%s`, m.ID, strings.Repeat("x", 300<<10))
				case <-ctx.Done():
				}
				_ = out.Close()
				_ = in.Close()
				<-ended
				<-p.Stdout
				return nil
			}}}
		d := NewDialer(spec, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop(), Buffer: client})
		for range 3 {
			s := d.NewSession()
			require.NoError(t, s.Open(t.Context()))
			transporttest.RequireFailed(t, transporttest.StartRequest(t.Context(), s, nil), mcpvisor.ErrCrashed)
			<-s.Released()
			require.Zero(t, d.(*dialer).buffer.Used(), "memory held in the budget of the server")
			require.Zero(t, client.Used(), "memory held in the budget of the client")
		}
	})
}

// TestBuffer_released_between_rounds: a large result that requires input holds no memory
// while a handler runs, nor after a later round has failed.
func TestBuffer_released_between_rounds(t *testing.T) {
	pad := `"pad":"` + strings.Repeat("x", 300<<10) + `",`
	for name, row := range map[string]struct {
		result  string
		handler bool
	}{
		"later_round_fails":     {`{` + pad + transporttest.SingleLine(transporttest.FormRequired)[1:], true},
		"input_is_not_readable": {`{` + pad + `"resultType":"input_required"}`, false},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			p := newPartner(t, true)
			var b *budget.Budget
			used := make(chan int64, 1)
			d := p.Dialer(transport.Handlers{ElicitForm: func(ctx context.Context, server string, ask *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				used <- b.Used()
				return transporttest.AcceptAtOnce(ctx, server, ask)
			}})
			b = d.(*dialer).buffer
			s := transporttest.OpenSession(t, d)
			var held budget.Share
			done := transporttest.StartRequest(t.Context(), s, &held)
			p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.Next("tools/call").ID, row.result)
			if row.handler {
				require.Zero(t, <-used, "memory held while the handler runs")
				p.Send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, p.Next("tools/call").ID)
			}
			require.Error(t, (<-done).Err)
			require.Zero(t, b.Used(), "memory held after the error")
			transporttest.EndSession(t, s)
		})
	}
}
