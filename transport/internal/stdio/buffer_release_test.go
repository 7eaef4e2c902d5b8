package stdio

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
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
		d, err := dialPipes(spec, transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop(), Buffer: client})
		require.NoError(t, err)
		for range 3 {
			s := d.NewSession()
			require.NoError(t, s.Open(t.Context()))
			transporttest.RequireFailed(t, transporttest.StartRequest(t.Context(), s, nil), mcpvisor.ErrCrashed)
			<-s.Released()
			require.Zero(t, d.(*pipedDialer).buffer.Used(), "of the server")
			require.Zero(t, client.Used(), "of the client")
		}
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
		"later_round_fails":     {`{` + pad + transporttest.SingleLine(transporttest.FormRequired)[1:], true},
		"input_is_not_readable": {`{` + pad + `"resultType":"input_required"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				p := newPartner(t, true)
				var b *budget.Budget
				used := make(chan int64, 1)
				d := p.Dialer(transport.Handlers{ElicitForm: func(ctx context.Context, server string, ask *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					used <- b.Used()
					return transporttest.AcceptAtOnce(ctx, server, ask)
				}})
				b = d.(*pipedDialer).buffer
				s := d.NewSession()
				transporttest.ReleaseAtEnd(t, s)
				require.NoError(t, s.Open(t.Context()))
				var held budget.Share
				done := transporttest.StartRequest(t.Context(), s, &held)
				p.Send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.Next("tools/call").ID, row.result)
				if row.asks {
					require.Zero(t, <-used, "while somebody is asked")
					p.Send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no"}}`, p.Next("tools/call").ID)
				}
				require.Error(t, (<-done).Err)
				require.Zero(t, b.Used(), "after the error")
				transporttest.EndSession(t, s)
			})
		})
	}
}
