package facade_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// A scraper is useless without its browser: it starts when the browser is ready, and restarts with it.
func ExampleClient_SetGroups() {
	ctx := context.Background()
	client, _ := facade.New()
	defer client.Close(ctx)
	err := client.SetGroups(ctx, []mcpvisor.Group{{
		Name:      "web",
		Members:   []string{"browser", "scraper"},
		Strategy:  supervisor.RestForOne,
		Intensity: supervisor.Intensity{Restarts: 3, Window: time.Minute},
		WhenSpent: supervisor.SpentPark,
	}})
	if err != nil {
		fmt.Println(err)
	}
	err = client.Register(ctx,
		mcpvisor.ServerSpec{Name: "scraper", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: mcpvisor.Retry(5, time.Second)},
		mcpvisor.ServerSpec{Name: "browser", InMemory: mcptest.InMemory(mcptest.Script{}), Policy: mcpvisor.Retry(5, time.Second)},
	)
	if err != nil {
		fmt.Println(err)
	}
	browser, _ := client.Inspect("browser")
	scraper, _ := client.Inspect("scraper")
	ready := browser.Steps[len(browser.Steps)-1].Time
	for _, step := range scraper.Steps {
		if step.To == supervisor.StateConnecting {
			fmt.Println("the scraper was started when the browser was ready:", step.Time.After(ready))
		}
	}
	// Output: the scraper was started when the browser was ready: true
}

// An operator stops a server for maintenance, and nothing but Start runs it again.
func ExampleClient_Stop() {
	ctx := context.Background()
	client, _ := facade.New()
	defer client.Close(ctx)
	_ = client.Register(ctx, mcpvisor.ServerSpec{Name: "db", InMemory: mcptest.InMemory(mcptest.Script{})})

	_ = client.Stop(ctx, "db", facade.WithDrain())
	_, err := client.CallTool(ctx, "db/echo", nil)
	fmt.Println(err)
	_ = client.Start(ctx, "db")
	_ = client.WaitReady(ctx, "db")
	status, _ := client.ServerStatus("db")
	fmt.Println(status.State)
	// Output:
	// call db/echo: server unavailable; nothing was sent: an operator has stopped the server; start it first
	// ready
}

// A context that ends with the process of a server is for work that needs this process, such as a browser session.
func ExampleClient_Monitor() {
	ctx := context.Background()
	client, _ := facade.New()
	defer client.Close(ctx)
	_ = client.Register(ctx, mcpvisor.ServerSpec{Name: "browser", InMemory: mcptest.InMemory(mcptest.Script{})})

	alive, err := client.Monitor(ctx, "browser")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = client.Restart(ctx, "browser")
	<-alive.Done()
	fmt.Println(context.Cause(alive))
	// Output: asked to restart
}

// A lazy server runs only while something wants it, and is listed from what it offered when it last ran.
func ExampleWithCatalogStore() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "catalogs")
	defer os.RemoveAll(dir)
	client, _ := facade.New(facade.WithCatalogStore(mcpvisor.CatalogDir(dir)))
	defer client.Close(ctx)
	asleep := client.Watch(ctx, mcpvisor.EventAsleep)
	_ = client.Register(ctx, mcpvisor.ServerSpec{Name: "rare", InMemory: mcptest.InMemory(mcptest.Script{}), Start: mcpvisor.StartLazy})
	<-asleep // it has run once, for its lists
	status, _ := client.ServerStatus("rare")
	fmt.Println(status.State, len(client.Tools()) > 0)

	_, err := client.CallTool(ctx, "rare/echo", map[string]any{"text": "hello"})
	status, _ = client.ServerStatus("rare")
	fmt.Println(status.State, err)
	// Output:
	// asleep true
	// ready <nil>
}
