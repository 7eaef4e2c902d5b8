package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

type runCmd struct{}

// Run implements kong's command.
func (runCmd) Run(inv *invocation) error {
	file, err := inv.loadConfig()
	if err != nil {
		return err
	}
	for _, p := range file.Problems {
		inv.warn(p.Server, "%s", p)
	}
	specs, err := selectSpecs(file, nil)
	if err != nil {
		return err
	}
	if len(specs) == 0 {
		return noServerError(file)
	}
	c, err := facade.New(facade.WithClientInfo("mcpvisor", facade.Version))
	if err != nil {
		return err
	}
	// The watch outlives the interrupt, so that events of the end are printed too.
	events := c.Watch(context.WithoutCancel(inv.ctx))
	printed := make(chan error, 1)
	go func() {
		var failed error
		for ev := range events {
			if err := inv.printEvent(ev); err != nil && failed == nil {
				failed = err
			}
		}
		printed <- failed
	}()
	applied := c.Apply(inv.ctx, specs)
	if applied == nil {
		<-inv.ctx.Done()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		return err
	}
	if err := <-printed; err != nil {
		return err
	}
	return applied
}

// printEvent prints one event: one line of text, or one line of JSON.
func (inv *invocation) printEvent(ev mcpvisor.Event) error {
	ev.Cause = causeInConfigTerms(ev.Cause)
	if !inv.json {
		_, err := fmt.Fprintf(inv.out, "%s  %s\n", ev.Time.Format("15:04:05.000"), oneLine(ev.String(), 400))
		return err
	}
	data, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	return printRaw(inv.out, data)
}
