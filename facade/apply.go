package facade

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// startsPerCore bounds how many first starts [Client.Apply] waits for at once.
// A start is mostly waiting, so it is a multiple of the cores; a thousand
// servers at once would only keep each other from starting in time.
const startsPerCore = 16

// Apply registers many servers at once, each as [Client.Register] does, at
// most 16 per core at a time. Specs with StartSupervised, as the config
// package makes them, are all accepted at once and start in the background;
// Apply waits for the first start of the others.
//
// Specs that fail do not keep the others from starting. Of two specs with one
// name the first counts, and the second is ErrExists. The error joins one
// *Error for each spec that failed, in their order, whose Server says which;
// it is nil if all were accepted.
func (c *Client) Apply(ctx context.Context, specs []mcpvisor.ServerSpec) error {
	errs := make([]error, len(specs))
	seen := make(map[string]int, len(specs))
	slots := make(chan struct{}, startsPerCore*runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, spec := range specs {
		if first, twice := seen[spec.Name]; twice {
			errs[i] = &mcpvisor.Error{Server: spec.Name, Op: "register " + spec.Name, Kind: mcpvisor.KindExists,
				Cause: fmt.Errorf("specs %d and %d of the list have the same name", first+1, i+1), Hint: "rename one of them"}
			continue
		}
		seen[spec.Name] = i
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.Register(ctx, spec)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
