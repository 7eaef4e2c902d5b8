package main

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/dial"
	"github.com/mcpvisor/mcpvisor/transport/discovery"
)

// compareDiscovery compares reading the lists of a server that has many tools.
func compareDiscovery(ctx context.Context) error {
	t := newTable("Discovery", append([]string{"tools", "what"}, operationColumns...)...)
	for _, size := range []struct{ tools, page int }{{10, 0}, {10_000, 100}, {10_000, 1_000}, {10_000, 0}} {
		target := stdioTarget("fast")
		target.env = append(target.env, fmt.Sprintf("BENCH_TOOLS=%d", size.tools), fmt.Sprintf("BENCH_PAGE=%d", size.page))
		label := fmt.Sprint(size.tools)
		if size.page > 0 {
			label += fmt.Sprintf(", %d a page", size.page)
		}
		err := compareOperations(ctx, t, label, *rounds, []string{"list"},
			operation{clientSDK, func(ctx context.Context) ([]measurement, error) { return listSDK(ctx, target, size.tools) }},
			operation{clientOurs, func(ctx context.Context) ([]measurement, error) { return listFacade(ctx, target, size.tools) }})
		if err != nil {
			return err
		}
	}
	return t.end()
}

func listSDK(ctx context.Context, t target, want int) ([]measurement, error) {
	a, err := newSDKDriver(ctx, t)
	if err != nil {
		return nil, err
	}
	defer a.close()
	n := 0
	var kept []*mcp.Tool
	r, err := timed(func() error {
		for tool, err := range a.(*sdkDriver).session.Tools(ctx, nil) {
			if err != nil {
				return err
			}
			kept = append(kept, tool)
		}
		n = len(kept)
		return nil
	})
	if err == nil && n != want+3 {
		err = fmt.Errorf("%d tools instead of %d", n, want+3)
	}
	return []measurement{r}, err
}

func listFacade(ctx context.Context, t target, want int) ([]measurement, error) {
	s := spec("s", t)
	s.Limits.MaxItems = want + 3
	d, err := dial.New(s, transport.Options{ClientInfo: &mcp.Implementation{Name: "bench", Version: "1"}, Logger: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	session := d.NewSession()
	defer func() {
		session.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "done"})
		<-session.Released()
	}()
	if err := session.Open(ctx); err != nil {
		return nil, err
	}
	n := 0
	r, err := timed(func() error {
		catalog, err := discovery.Discover(ctx, session, "s", s.WithDefaults().Limits)
		if err == nil {
			n = len(catalog.Tools)
		}
		return err
	})
	if err == nil && n != want+3 {
		err = fmt.Errorf("%d tools instead of %d", n, want+3)
	}
	return []measurement{r}, err
}
