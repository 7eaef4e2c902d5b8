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

// addressFlag is the flag --http: with or without an address.
type addressFlag struct{ address *string }

// String implements flag.Value.
func (f addressFlag) String() string { return "" }

// Set implements flag.Value.
func (f addressFlag) Set(text string) error {
	switch text {
	case "true":
		text = defaultAddress
	case "false":
		text = ""
	}
	*f.address = text
	return nil
}

// IsBoolFlag makes the address optional.
func (f addressFlag) IsBoolFlag() bool { return true }

// page serves the page of a client. It is read only: what a user restarts would not fit the
// delays that the demo checks.
type page struct {
	handler *web.Handler
	server  *http.Server
	served  chan struct{} // closed when the server has ended
	url     string
}

// servePage serves the page at a loopback address.
func servePage(c *facade.Client, address string) (*page, error) {
	where, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	if !where.IP.IsLoopback() {
		return nil, fmt.Errorf("%s can be reached from other machines; use a loopback address, as in %s", address, defaultAddress)
	}
	handler, err := web.New(c, web.WithTitle("mcpvisor demo"))
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", where)
	if err != nil {
		return nil, err
	}
	p := &page{handler: handler, server: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)},
		served: make(chan struct{}), url: "http://" + l.Addr().String() + "/"}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // its error says only that it was closed
	}()
	return p, nil
}

// close ends the event streams and the server.
func (p *page) close() error {
	p.handler.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := p.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, p.server.Close())
	}
	<-p.served
	return err
}
