package servers

import (
	"context"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/facade"
)

// Supervise starts copies of all servers with their own policies, as `mcpvisor run`
// does, and does not wait for them.
func (o *Opener) Supervise() (*Set, error) {
	file, err := o.LoadConfig()
	if err != nil {
		return nil, err
	}
	specs := file.Specs()
	o.warnProblems(file, specs)
	if len(specs) == 0 {
		return nil, NoServerError(file)
	}
	for _, u := range Unusable(file) {
		specs = append(specs, StandIn(u))
	}
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			o.Warn("", "mcpvisor: %v", err)
		}
	}
	h, err := control.New(c, control.Served{Masks: control.MasksOf(specs...)}, control.Info{})
	if err != nil {
		stop()
		return nil, err
	}
	// The view shows the starts; an error says only that the command was interrupted.
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		_ = c.RegisterAll(o.Context, specs)
	}()
	return &Set{Client: attach.InProcess(h), Stop: func() {
		stop()
		<-applied
	}}, nil
}
