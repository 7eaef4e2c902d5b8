package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// With a server that is known to be modern, server/discover may take longer than
// Timeouts.Negotiate. The server may also have become a legacy server.
func TestEra_remembered(t *testing.T) {
	rows := map[string]struct {
		discover handler
		want     mcpvisor.Era
	}{
		"slow": {func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			time.Sleep(2 * defaults.NegotiateTimeout)
			replyModern(w, r, id)
		}, mcpvisor.EraModern},
		"legacy now":            {nil, mcpvisor.EraLegacy},
		"broken, speaks legacy": {replyStatus(500, "", ""), mcpvisor.EraLegacy},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				d := newTestDialer(web.spec())
				web.handle("server/discover", replyModern)
				for _, want := range []mcpvisor.Era{mcpvisor.EraModern, row.want} {
					s := d.NewSession()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					require.NoError(t, s.Open(ctx))
					require.Equal(t, want, s.Info().Era)
					s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested})
					<-s.Released()
					web.handle("server/discover", row.discover)
				}
			})
		})
	}
}

// The remembered era is dropped if it may be the reason why a session could not be opened,
// and only then.
func TestEra_forgotten(t *testing.T) {
	never := func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() }
	rows := map[string]struct {
		reply    handler
		fails    error // of the connection
		canceled bool
		kind     supervisor.CauseKind
		want     mcpvisor.Era
	}{
		"refused":     {replyStatus(500, "", ""), nil, false, supervisor.CauseHandshake, mcpvisor.EraAuto},
		"silent":      {never, nil, false, supervisor.CauseTimeout, mcpvisor.EraAuto},
		"canceled":    {never, nil, true, supervisor.CauseRequested, mcpvisor.EraModern},
		"unreachable": {nil, &net.OpError{Op: "dial", Err: errors.New("no route to host")}, false, supervisor.CauseSpawn, mcpvisor.EraModern},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := newMemoryTransport(t)
				web.handle("server/discover", row.reply)
				web.handle("initialize", row.reply)
				spec := web.spec()
				spec.HTTP.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					if row.fails != nil {
						return nil, row.fails
					}
					return web.RoundTrip(r)
				})}
				d := newTestDialer(spec)
				d.era.Store(mcpvisor.EraModern)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if row.canceled {
					time.AfterFunc(time.Second, cancel)
				}
				s := d.NewSession()
				require.Error(t, s.Open(ctx))
				require.Equal(t, row.kind, s.Cause().Kind, s.Cause().Message)
				require.Equal(t, row.want, d.knownEra())
				<-s.Released()
			})
		})
	}
}
