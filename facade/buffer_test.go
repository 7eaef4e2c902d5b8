package facade_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

// heavy is a legacy server in memory that reports progress and answers each call
// with a text of the given size.
func heavy(name string, size int, limits facade.Limits) facade.ServerSpec {
	return facade.ServerSpec{Name: name, Era: facade.EraLegacy, Limits: limits,
		InMemory: &facade.InMemory{Serve: func(_ context.Context, in io.ReadCloser, out io.WriteCloser, _ io.Writer) error {
			lines := bufio.NewScanner(in)
			for lines.Scan() {
				var m incoming
				if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
					continue
				}
				result := shakeHands(m.Method)
				if m.Method == "tools/call" {
					fmt.Fprintf(out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n", m.ID)
					result = `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
				}
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
			}
			return nil
		}}}
}

// One budget for all servers: large answers of one server wait for each other,
// and those of another server do not wait for them.
func TestWithBuffer(t *testing.T) {
	for name, row := range map[string]struct {
		client int
		server int
		waits  bool
	}{
		"of the client": {client: 1 << 20, server: 1 << 30, waits: true},
		"of the server": {client: 1 << 30, server: 1 << 20, waits: true},
		"enough room":   {client: 1 << 30, server: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 2 << 20
				c, err := facade.New(facade.WithBuffer(row.client))
				require.NoError(t, err)
				limits := facade.Limits{Buffer: row.server}
				require.NoError(t, c.Register(t.Context(), heavy("a", size, limits)))
				require.NoError(t, c.Register(t.Context(), heavy("b", size, limits)))

				quit := make(chan struct{})
				one := make(chan error, 1)
				go func() { // its answer is here, and it does not take it
					_, err := c.Call(t.Context(), "a/x", nil, facade.WithProgress(func(facade.Progress) { <-quit }))
					one <- err
				}()
				synctest.Wait()
				two := make(chan error, 1)
				go func() {
					_, err := c.Call(t.Context(), "a/x", nil)
					two <- err
				}()
				synctest.Wait()
				require.Equal(t, row.waits, len(two) == 0, "whether it waits")
				for range 2 {
					_, err = c.Call(t.Context(), "b/x", nil)
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

// Many large results at once are decoded one after the other, and all of them.
func TestManyLargeResults(t *testing.T) {
	c := newClient(t)
	require.NoError(t, c.Register(t.Context(), heavy("s", 1<<20, facade.Limits{Buffer: 1 << 20})))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			res, err := c.Call(t.Context(), "s/x", nil)
			if err != nil || len(res.Content) != 1 {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
}

func ExampleWithBuffer() {
	// A host with little memory: large answers of all servers together hold about
	// 64 MiB while they are read and decoded, those of one server about 16 MiB.
	client, err := facade.New(facade.WithBuffer(64 << 20))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(context.Background()) }()
	err = client.Register(context.Background(), facade.ServerSpec{
		Name:     "maps",
		InMemory: rawServer(func(_, _ string) string { return "" }),
		Limits:   facade.Limits{Buffer: 16 << 20},
	})
	fmt.Println(err)
	// Output: <nil>
}
