package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/catalog"
	"github.com/mcpvisor/mcpvisor/fleet/internal/framing"
	lists "github.com/mcpvisor/mcpvisor/internal/catalog"
	"github.com/mcpvisor/mcpvisor/internal/encodedlists"
)

// TestClient_Catalog: a catalog comes as it is, short or long, without a check of the epoch; what
// the node does not have is refused.
func TestClient_Catalog(t *testing.T) {
	a := newAuthority(t)
	bodies := map[string][]byte{}
	for _, b := range [][]byte{[]byte("short"), bytes.Repeat([]byte("long"), 1<<20), {}} {
		bodies[encodedlists.Digest(b)] = b
	}
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo,
		Check: func(string, uint64) error { return ErrLeaseOver },
		Catalog: func(server, digest string) ([]byte, error) {
			if b, ok := bodies[digest]; ok && server == "s" {
				return b, nil
			}
			return nil, errors.New("there is no such catalog")
		}})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	for digest, want := range bodies {
		got, err := c.Catalog(within(t), "s", digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	}
	_, err := c.Catalog(within(t), "s", encodedlists.Digest([]byte("other")))
	requireNotSent(t, err, "get the catalog of s", "no such catalog")
	require.NotErrorIs(t, err, ErrUnsupported)
}

// requireNotSent checks the error of a request that the other node refuses.
func requireNotSent(t testing.TB, err error, texts ...string) {
	t.Helper()
	require.ErrorIs(t, err, mcpvisor.ErrUnavailable)
	var e *mcpvisor.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
	for _, text := range texts {
		require.ErrorContains(t, err, text)
	}
}

// TestClient_Catalog_hostile: a node that answers with other bytes, or too many, is found out.
func TestClient_Catalog_hostile(t *testing.T) {
	a := newAuthority(t)
	address := hostileServer(t, identity(t, a, "b"), func(s rawStream) {
		s.send(welcome("b"))
		for {
			f, err := s.receive(messageCall)
			if err != nil {
				return
			}
			switch c, _ := readCall(f.payload); c.server {
			case "lie":
				s.send(whole(messageResult, f.call, []byte("something else")))
			case "long":
				s.send(begins(f.call, messageResult, f.call, encodedlists.MaxBytes+1, make([]byte, framing.MaxChunk)))
			default:
				s.send(whole(messageResult, f.call, []byte("good")))
			}
		}
	})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	_, err := c.Catalog(within(t), "lie", encodedlists.Digest([]byte("good")))
	require.ErrorIs(t, err, mcpvisor.ErrProtocol)
	require.ErrorIs(t, err, encodedlists.ErrDigest)
	_, err = c.Catalog(within(t), "long", encodedlists.Digest([]byte("good")))
	require.ErrorIs(t, err, mcpvisor.ErrProtocol)
	require.ErrorContains(t, err, "67108865 bytes")
	_, err = c.Catalog(within(t), "s", encodedlists.Digest([]byte("good")))
	require.NoError(t, err, "the link lives")
}

// toolsOf is a catalog with n tools of about 300 bytes.
func toolsOf(t testing.TB, n int, seed int) []byte {
	t.Helper()
	c := &lists.Catalog{}
	for i := range n {
		name := fmt.Sprintf("tool_%d_%d", seed, i)
		c.Tools = append(c.Tools, mcpvisor.Tool{OriginalName: name, Definition: &mcp.Tool{Name: name, Description: strings.Repeat("d", 200),
			InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}})
	}
	b, err := encodedlists.New(mcpvisor.SessionInfo{ProtocolVersion: "2025-11-25", Era: mcpvisor.EraLegacy}, c)
	require.NoError(t, err)
	return b.Encoded()
}

// BenchmarkClient_Catalog fetches the catalogs of a node, 64 at a time, and keeps them.
func BenchmarkClient_Catalog(b *testing.B) {
	for _, row := range []struct{ catalogs, tools int }{{2000, 20}, {1, 1000}} {
		b.Run(fmt.Sprintf("%d of %d tools", row.catalogs, row.tools), func(b *testing.B) {
			bodies, digests, bytesOf := map[string][]byte{}, []string{}, 0
			for i := range row.catalogs {
				encoded := toolsOf(b, row.tools, i)
				digests = append(digests, encodedlists.Digest(encoded))
				bodies[digests[i]] = encoded
				bytesOf += len(encoded)
			}
			a := newAuthority(b)
			_, address := serve(b, ServerConfig{Identity: identity(b, a, "b"), Local: echo, Catalog: func(_, digest string) ([]byte, error) { return bodies[digest], nil }})
			c := connect(b, ClientConfig{Identity: identity(b, a, "a"), Address: address})
			var before, after runtime.MemStats
			for b.Loop() {
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.StartTimer()
				cache := catalog.NewCache(1 << 30)
				var wg sync.WaitGroup
				for worker := range 64 {
					wg.Go(func() {
						for i := worker; i < len(digests); i += 64 {
							_, err := cache.Get(context.Background(), "b", digests[i], func(ctx context.Context) ([]byte, error) { return c.Catalog(ctx, "s", digests[i]) })
							if err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "heap-MB")
				b.ReportMetric(float64(bytesOf)/1e6, "encoded-MB")
				runtime.KeepAlive(cache)
				b.StartTimer()
			}
		})
	}
}

// TestClient_Request: a request arrives as it was made, with the node that its certificate names,
// and its error comes back.
func TestClient_Request(t *testing.T) {
	a := newAuthority(t)
	_, address := serve(t, ServerConfig{Identity: identity(t, a, "b"), Local: echo,
		Check: func(_ string, epoch uint64) error {
			if epoch != 7 {
				return ErrMoved
			}
			return nil
		},
		Request: func(ctx context.Context, r Request) (json.RawMessage, error) {
			settings, err := relay.SettingsOf(relay.CallSettings{}, r.Options...)
			if err != nil || settings.Timeout != time.Minute {
				return nil, fmt.Errorf("%v: %w", settings, err)
			}
			if r.Method == "fail" {
				return nil, &mcpvisor.Error{Server: "s", Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent}
			}
			if r.Method == "ask" {
				return settings.Handlers.Raw(ctx, "s", "roots/list", nil)
			}
			return json.Marshal([]any{r.Node, r.Server, r.Epoch, r.Method, r.Target, r.Params})
		}})
	c := connect(t, ClientConfig{Identity: identity(t, a, "a"), Address: address})
	request := func(r Request) (json.RawMessage, error) {
		r.Options = append(r.Options, facade.WithTimeout(time.Minute))
		return c.Request(within(t), r)
	}
	for _, r := range []Request{
		{Node: "forged", Server: "s", Epoch: 7, Method: "m", Target: "t", Params: []byte(`{"a":1}`)},
		{Server: "s", Epoch: 7, Method: "m"},
	} {
		got, err := request(r)
		require.NoError(t, err)
		want, err := json.Marshal([]any{"a", r.Server, r.Epoch, r.Method, r.Target, r.Params})
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	}
	_, err := request(Request{Server: "s", Epoch: 7, Method: "fail"})
	require.ErrorIs(t, err, mcpvisor.ErrInvalid)
	require.ErrorContains(t, err, "fail of s")
	_, err = request(Request{Server: "s", Epoch: 6, Method: "m"})
	require.ErrorIs(t, err, ErrMoved)
	handlers := &relay.Handlers{Raw: func(context.Context, relay.ServerRequest) (json.RawMessage, error) { return []byte(`"asked"`), nil }}
	got, err := request(Request{Server: "s", Epoch: 7, Method: "ask", Options: []facade.CallOption{relay.WithHandlers(handlers)}})
	require.NoError(t, err)
	require.Equal(t, `"asked"`, string(got))
}
