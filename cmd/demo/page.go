package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/web"
)

// defaultAddress is where --http without an address serves the page.
const defaultAddress = "127.0.0.1:7777"

// servePage serves the page of a client at a loopback address. It is read only: what a user
// restarts would not fit the delays that the demo checks. end ends its event streams and its
// server.
func servePage(c *facade.Client, address string) (url string, end func() error, err error) {
	where, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return "", nil, err
	}
	if !where.IP.IsLoopback() {
		return "", nil, fmt.Errorf("%s can be reached from other machines; use a loopback address, as in %s", address, defaultAddress)
	}
	handler, err := web.New(c, web.WithTitle("mcpvisor demo"))
	if err != nil {
		return "", nil, err
	}
	l, err := net.ListenTCP("tcp", where)
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(l) }() // its error says only that it was closed
	return "http://" + l.Addr().String() + "/", func() error {
		handler.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			return errors.Join(err, server.Close())
		}
		return nil
	}, nil
}
