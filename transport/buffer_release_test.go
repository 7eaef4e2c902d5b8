package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
)

// A budget outlives the sessions of its server. A session that ends while it reads
// a large answer gives back what that holds.
func TestPipedBufferCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := budget.New(1<<30, nil)
		p := newPartner(t, false)
		spec := mcpvisor.ServerSpec{Name: "m", Limits: mcpvisor.Limits{MaxBufferBytes: 1 << 20},
			InMemory: &mcpvisor.InMemory{Serve: func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, stderr io.Writer) error {
				ended := make(chan error, 1)
				go func() { ended <- p.serve(ctx, in, out, stderr) }()
				select {
				case m := <-p.heard:
					fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"a":"%s`, m.ID, strings.Repeat("x", 300<<10))
				case <-ctx.Done():
				}
				_ = out.Close()
				_ = in.Close()
				<-ended
				<-p.out
				return nil
			}}}
		d, err := NewDialer(spec, Options{ClientInfo: testInfo, Logger: zerolog.Nop(), Buffer: client})
		require.NoError(t, err)
		for range 3 {
			s := d.NewSession()
			require.NoError(t, s.Open(t.Context()))
			requireFailed(t, calling(t.Context(), s, nil), mcpvisor.ErrCrashed)
			<-s.Released()
			require.Zero(t, d.(*pipedDialer).buffer.Used(), "of the server")
			require.Zero(t, client.Used(), "of the client")
		}
	})
}

// What a broken event has held is given back before the rest of the stream is asked
// for: that can take minutes.
func TestHTTPBufferBrokenStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var used atomic.Int64
		used.Store(-1)
		var s *httpSession
		web, spec, _ := resuming(t, "", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			used.Store(s.exchanges.buffer.Used())
			restOfCall(w, r, id)
		})
		opened := web.on["tools/call"]
		web.handle("tools/call", func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			opened(w, r, id)
			sayEvents(w)("id: a\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"a\":\"%s", id, strings.Repeat("x", 300<<10))
			panic(http.ErrAbortHandler)
		})
		s = openWireless(t, spec)
		_, err := s.Request(t.Context(), toolCall)
		require.NoError(t, err)
		require.Zero(t, used.Load(), "while the stream is resumed")
		require.Zero(t, s.exchanges.buffer.Used())
	})
}

// A large result that asks for input holds nothing while somebody is asked, and
// nothing after a later round has failed.
func TestRoundsBuffer(t *testing.T) {
	pad := `"pad":"` + strings.Repeat("x", 300<<10) + `",`
	for name, row := range map[string]struct {
		result string
		asks   bool
	}{
		"later_round_fails":     {`{` + pad + oneLineOf(wantsForm)[1:], true},
		"input_is_not_readable": {`{` + pad + `"resultType":"input_required"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPartner(t, true)
				var b *budget.Budget
				used := make(chan int64, 1)
				d := p.dialer(Handlers{ElicitForm: func(ctx context.Context, server string, ask *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					used <- b.Used()
					return atOnce(ctx, server, ask)
				}})
				b = d.(*pipedDialer).buffer
				s := d.NewSession()
				releaseAtEnd(t, s)
				require.NoError(t, s.Open(t.Context()))
				var held budget.Share
				done := calling(t.Context(), s, &held)
				p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.next("tools/call").ID, row.result)
				if row.asks {
					require.Zero(t, <-used, "while somebody is asked")
					p.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, p.next("tools/call").ID)
				}
				require.Error(t, (<-done).err)
				require.Zero(t, b.Used(), "after the error")
				endSession(t, s)
			})
		})
	}
}
