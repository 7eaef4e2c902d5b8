package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor/web"
)

// defaultAddress is where --http without an address serves the page.
const defaultAddress = "127.0.0.1:7777"

// listen listens at a loopback address; nil without one.
func listen(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // no page was asked for
	}
	where, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if !where.IP.IsLoopback() {
		return nil, fmt.Errorf("%s can be reached from other machines; use a loopback address, as in %s", address, defaultAddress)
	}
	return net.ListenTCP("tcp", where)
}

// runWithPage runs the steps, and serves the page of the servers until ctx ends. It is read only: what a user
// restarts would not fit the delays that the demo checks.
func (d *demo) runWithPage(ctx context.Context, l net.Listener) error {
	handler, err := web.New(d.client, web.WithTitle("mcpvisor demo"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(l) }() // its error says only that it was closed
	url := "http://" + l.Addr().String() + "/"
	d.p.printLine(bold, "page  %s", url)
	if err = d.runSteps(ctx); err == nil {
		d.p.printLine(bold, "the servers and the page %s stay until you press Ctrl-C", url)
		<-ctx.Done()
	}
	handler.Close()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	d.check("the page ends", server.Shutdown(ending))
	return err
}
