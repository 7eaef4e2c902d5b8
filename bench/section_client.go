package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade"
)

// clientsPerRound is how many clients a round makes; one is too fast to measure.
const clientsPerRound = 100

// compareClients compares making and closing a client that has no server. The peers'
// clients are for one server each, and do nothing before they connect.
func compareClients(ctx context.Context) error {
	t := newTable("A client without servers: make and close it", append([]string{"clients", "what"}, operationColumns...)...)
	each := func(f func() error) func(context.Context) ([]measurement, error) {
		return func(context.Context) ([]measurement, error) {
			m, err := timed(func() error {
				for range clientsPerRound {
					if err := f(); err != nil {
						return err
					}
				}
				return nil
			})
			return []measurement{{m.Took / clientsPerRound, m.Bytes / clientsPerRound}}, err
		}
	}
	err := compareOperations(ctx, t, "1", max(5, *rounds), []string{"make and close"},
		operation{clientSDK, each(func() error {
			mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
			return nil
		})},
		operation{clientMCPGo, each(func() error {
			return client.NewClient(transport.NewStdio("true", nil)).Close()
		})},
		operation{clientOurs, each(func() error {
			c, err := facade.New()
			if err != nil {
				return err
			}
			return c.Close(ctx)
		})})
	if err != nil {
		return err
	}
	err = compareOperations(ctx, t, "first", max(5, *rounds), []string{"make and close"},
		operation{clientOurs, func(ctx context.Context) ([]measurement, error) {
			var m measurement
			err := runSelf(ctx, &m, "BENCH_SERVER=client")
			return []measurement{m}, err
		}})
	if err != nil {
		return err
	}
	return t.end()
}

// reportFirstClient makes and closes one client in a process of its own: the first client
// of a process also makes what all its clients share.
func reportFirstClient(ctx context.Context) bool {
	return report(timed(func() error {
		c, err := facade.New()
		if err != nil {
			return err
		}
		return c.Close(ctx)
	}))
}

// report prints a value as JSON, for [runSelf] to read. An error ends this program.
func report[T any](v T, err error) bool {
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(v)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	return true
}

// runSelf runs this program with more in its environment, and decodes what it prints.
func runSelf(ctx context.Context, into any, env ...string) error {
	cmd := exec.CommandContext(ctx, self())
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}
