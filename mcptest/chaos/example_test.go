package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/mcptest/chaos"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// Run says what each server makes of a storm. The servers of a service are tested so as they
// are configured.
func ExampleRun() {
	report, err := chaos.Run(context.Background(), []mcpvisor.ServerSpec{{
		Name: "shop",
		InMemory: mcptest.InMemory(mcptest.Script{Tools: []mcptest.ToolDef{
			{Name: "search", As: "echo", Annotations: json.RawMessage(`{"readOnlyHint":true}`)},
			{Name: "order", As: "count"}, // never called: it does not say that it is read-only
		}}),
	}}, chaos.Options{Duration: 200 * time.Millisecond, Seed: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range report.Servers {
		fmt.Println(s.Server, "passed:", s.Passed, s.Findings, s.Tools)
	}
	// Output: shop passed: true [] [shop/search]
}

// Inject makes a storm below a service that is under test, which uses the client meanwhile.
func ExampleInject() {
	ctx := context.Background()
	client, err := facade.New(facade.WithDefaultWaitReady())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }()
	err = client.Register(ctx, mcpvisor.ServerSpec{Name: "shop", InMemory: mcptest.InMemory(mcptest.Script{}),
		Policy: supervisor.Retry(supervisor.Unlimited, 10*time.Millisecond)})
	if err != nil {
		fmt.Println(err)
		return
	}
	before := chaos.Lists(client, "shop")
	storm, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	injected := make(chan []chaos.Injection, 1)
	go func() {
		injected <- chaos.Inject(storm, 42, chaos.Target{Server: "shop", Faults: chaos.Faults(client, "shop"), MaxPause: 20 * time.Millisecond})
	}()
	// Here the service works. Afterwards its servers are what they were.
	fmt.Println("faults:", len(<-injected) > 0)
	if err := client.WaitReady(ctx, "shop"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("entries:", len(before) > 0, len(before) == len(chaos.Lists(client, "shop")))
	// Output:
	// faults: true
	// entries: true true
}
