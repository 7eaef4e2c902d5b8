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
func (runCmd) Run(sh *shell) error {
	file, err := sh.load()
	if err != nil {
		return err
	}
	for _, p := range file.Problems {
		sh.warn(p.Server, "%s", p)
	}
	specs, err := choose(file, nil)
	if err != nil {
		return err
	}
	if len(specs) == 0 {
		return noServer(file)
	}
	c, err := facade.New(facade.WithClientInfo("mcpvisor", facade.Version))
	if err != nil {
		return err
	}
	// The watch outlives the interruption, so that the end is told as well.
	events := c.Watch(context.WithoutCancel(sh.ctx))
	told := make(chan error, 1)
	go func() {
		var failed error
		for ev := range events {
			if err := sh.tell(ev); err != nil && failed == nil {
				failed = err
			}
		}
		told <- failed
	}()
	applied := c.Apply(sh.ctx, specs)
	if applied == nil {
		<-sh.ctx.Done()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		return err
	}
	if err := <-told; err != nil {
		return err
	}
	return applied
}

// tell prints one event: one line of text, or one line of JSON.
func (sh *shell) tell(ev mcpvisor.Event) error {
	ev.Cause = causeInTerms(ev.Cause)
	if !sh.json {
		_, err := fmt.Fprintf(sh.out, "%s  %s\n", ev.Time.Format("15:04:05.000"), line(ev.String(), 400))
		return err
	}
	data, err := json.Marshal(ev)
	if err != nil {
		return err
	}
	return printRaw(sh.out, data)
}
