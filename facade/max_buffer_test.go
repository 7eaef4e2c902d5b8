package facade_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/test/raw"
)

// heavy is the spec of a legacy server in memory that reports progress and answers each
// call with a text of the given size.
func heavy(name string, size int, limits mcpvisor.Limits) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: name, Era: mcpvisor.EraLegacy, Limits: limits, InMemory: inMemory(&raw.Server{Answer: func(m *raw.Message) string {
		if m.Method != "tools/call" {
			return ""
		}
		m.Send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, m.ID)
		return raw.Text(strings.Repeat("x", size))
	}})}
}

// Large answers of one server wait for each other when the buffer is full, whether it is
// the client's or the server's. Those of another server do not wait for them.
func TestWithMaxBufferBytes(t *testing.T) {
	for name, row := range map[string]struct {
		client int
		server int
		waits  bool
	}{
		"of_the_client": {client: 1 << 20, server: 1 << 30, waits: true},
		"of the server": {client: 1 << 30, server: 1 << 20, waits: true},
		"enough room":   {client: 1 << 30, server: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 2 << 20
				c, err := facade.New(facade.WithMaxBufferBytes(row.client))
				require.NoError(t, err)
				limits := mcpvisor.Limits{MaxBufferBytes: row.server}
				require.NoError(t, c.Register(t.Context(), heavy("a", size, limits)))
				require.NoError(t, c.Register(t.Context(), heavy("b", size, limits)))

				quit := make(chan struct{})
				one := make(chan error, 1)
				go func() { // its answer has arrived and is not decoded yet
					_, err := c.CallTool(t.Context(), "a/x", nil, facade.WithProgress(func(mcpvisor.Progress) { <-quit }))
					one <- err
				}()
				synctest.Wait()
				two := make(chan error, 1)
				go func() {
					_, err := c.CallTool(t.Context(), "a/x", nil)
					two <- err
				}()
				synctest.Wait()
				require.Equal(t, row.waits, len(two) == 0, "whether it waits")
				for range 2 {
					_, err = c.CallTool(t.Context(), "b/x", nil)
					require.NoError(t, err, "another server does not wait")
				}
				close(quit)
				require.NoError(t, <-one)
				require.NoError(t, <-two)
				require.NoError(t, c.Close(t.Context()))
			})
		})
	}
}

func ExampleWithMaxBufferBytes() {
	// A host with little memory: large answers of all servers together hold about
	// 64 MiB while they are read and decoded, those of one server about 16 MiB.
	client, err := facade.New(facade.WithMaxBufferBytes(64 << 20))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(context.Background()) }()
	err = client.Register(context.Background(), mcpvisor.ServerSpec{
		Name:     "maps",
		InMemory: rawServer(func(_, _ string) string { return "" }),
		Limits:   mcpvisor.Limits{MaxBufferBytes: 16 << 20},
	})
	fmt.Println(err)
	// Output: <nil>
}

// padded is the spec of a legacy server whose answers hold result, in a line of 300 KiB.
func padded(result string, limits mcpvisor.Limits) mcpvisor.ServerSpec {
	return mcpvisor.ServerSpec{Name: "s", Era: mcpvisor.EraLegacy, Limits: limits, InMemory: inMemory(&raw.Server{Answer: func(m *raw.Message) string {
		switch m.Method {
		case "resources/read", "prompts/get", "completion/complete", "tools/call":
			return `"pad":"` + strings.Repeat("x", 300<<10) + `","result":` + result
		}
		return rawMembers(m)
	}})}
}

// A small result in a large message releases its share of the buffer, whether it can be
// decoded or not, and whatever a function of the host does.
func TestMaxBufferBytes_released_after_each_call(t *testing.T) {
	ask := map[string]func(context.Context, *facade.Client) error{
		"Call": func(ctx context.Context, c *facade.Client) error {
			_, err := c.CallTool(ctx, "s/x", nil)
			return err
		},
		"CallRaw": func(ctx context.Context, c *facade.Client) error {
			_, err := c.CallToolRaw(ctx, "s/x", nil)
			return err
		},
		"Read": func(ctx context.Context, c *facade.Client) error {
			_, err := c.ReadResource(ctx, "s", "a:b")
			return err
		},
		"ReadRaw": func(ctx context.Context, c *facade.Client) error {
			_, err := relay.Of(c).ReadResourceRaw(ctx, "s", "a:b")
			return err
		},
		"Prompt": func(ctx context.Context, c *facade.Client) error {
			_, err := c.GetPrompt(ctx, "s/p", nil)
			return err
		},
		"Complete": func(ctx context.Context, c *facade.Client) error {
			_, err := c.Complete(ctx, "s", facade.CompletionRequest{Prompt: "p", Argument: "a"})
			return err
		},
	}
	for result, text := range map[string]string{
		"small_result":  `{"content":[],"contents":[{"uri":"a:b","text":"x"}],"messages":[],"completion":{"values":["x"]}}`,
		"result_of_40K": `{"content":[],"contents":[],"messages":[],"completion":{"values":["` + strings.Repeat("x", 40<<10) + `"]}}`,
		"no_result":     `[]`,
	} {
		for name, one := range ask {
			t.Run(name+"/"+result, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var kind mcpvisor.ErrorKind
					c, err := facade.New(facade.WithEndedCalls(func(call monitor.EndedCall) { kind = call.Kind; panic("of the host") }, false))
					require.NoError(t, err)
					require.NoError(t, c.Register(t.Context(), padded(text, mcpvisor.Limits{MaxBufferBytes: 1 << 20})))
					for i := range 10 {
						require.Panics(t, func() { _ = one(t.Context(), c) })
						require.NotEqual(t, mcpvisor.ErrOverloaded, kind, "call %d, one after the other", i)
					}
					require.NoError(t, c.Close(t.Context()))
				})
			})
		}
	}
}
