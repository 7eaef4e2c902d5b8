package mcpvisor

import (
	"context"
	"errors"
	"io"
)

// InMemory describes a server that runs as a goroutine of this process.
// facade.ServeInMemory makes one of a go-sdk server.
type InMemory struct {
	// Serve runs one incarnation of the server: it reads newline-delimited JSON-RPC
	// from stdin and writes it to stdout, until stdin ends or ctx is done. The error
	// that it returns is the cause of the end, as the exit status of a process would
	// be. What it writes to stderr is treated as a process's. Each incarnation calls it
	// again, in a goroutine of its own; a panic ends the incarnation. Required.
	Serve func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error
}

func (c *InMemory) clone() *InMemory {
	if c == nil {
		return nil
	}
	d := *c
	return &d
}

func (c *InMemory) validate() (errs []error) {
	if c.Serve == nil {
		errs = append(errs, errors.New("in-memory transport: Serve is nil; set the function that runs the server"))
	}
	return errs
}
