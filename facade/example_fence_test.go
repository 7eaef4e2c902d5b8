package facade_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A host that may no longer run a server, because it has lost the lease of its name, ends it at
// once. Registering it again ends the fence.
func ExampleClient_Fence() {
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer client.Close(ctx)
	browser := mcpvisor.ServerSpec{Name: "browser", InMemory: mcptest.InMemory(mcptest.Script{}), Exclusive: true}
	if err := client.Register(ctx, browser); err != nil {
		panic(err)
	}

	err = client.Fence(ctx, "browser", "the lease is over")
	fmt.Println("fenced:", err == nil)
	_, err = client.CallTool(ctx, "browser/echo", map[string]any{"text": "hello"})
	fmt.Println(errors.Is(err, mcpvisor.ErrEvicted), err)
	fmt.Println("registered again:", client.Register(ctx, browser) == nil)

	// Output:
	// fenced: true
	// true call browser/echo: server evicted; nothing was sent: fenced: the lease is over; register it again
	// registered again: true
}
