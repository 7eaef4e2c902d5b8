package facade_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// With a standby a second instance of the server takes over as soon as the first one
// ends, long before the delay of the policy.
func ExampleClient_Register_standby() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	events := client.Watch(ctx, mcpvisor.EventStandby)
	err = client.Register(ctx, mcpvisor.ServerSpec{
		Name:     "demo",
		InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy:   supervisor.Retry(3, time.Hour),
		Standby:  true,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println((<-events).Epoch, "is the standby")

	_, err = client.CallTool(ctx, "demo/crash", nil)
	fmt.Println(errors.Is(err, mcpvisor.ErrCrashed))
	_, err = client.CallTool(ctx, "demo/echo", map[string]any{"text": "x"}, facade.WithWaitReady())
	status, _ := client.ServerStatus("demo")
	fmt.Println(err, status.Epoch, "is in service")
	// Output:
	// 2 is the standby
	// true
	// <nil> 2 is in service
}
