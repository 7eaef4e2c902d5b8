// Command gateway serves one server of stdio through package gateway, for the server scenarios of
// the official conformance suite: gateway ADDRESS ERA COMMAND [ARGUMENT...]. ERA is
// that of the server.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1], mcpvisor.Era(os.Args[2]), os.Args[3], os.Args[4:])
	cancel()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address string, era mcpvisor.Era, command string, args []string) error {
	client, err := facade.New(facade.WithDeclared(facade.Declared{Sampling: true, SamplingTools: true, Elicitation: true, URLElicitation: true, Roots: true}))
	if err != nil {
		return err
	}
	defer client.Close(context.Background()) //nolint:errcheck // the program ends
	if err := client.Register(ctx, mcpvisor.ServerSpec{Name: "everything", Era: era, Stdio: &mcpvisor.Stdio{Command: command, Args: args}}); err != nil {
		return err
	}
	handler := gateway.Handler(client, gateway.WithNames(gateway.Names{Prefix: gateway.PrefixNever}))
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	server.RegisterOnShutdown(handler.Close)
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.Background()) })
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}
