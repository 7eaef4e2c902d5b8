package facade

import (
	"context"
	"errors"
	"sync"
)

// Apply registers many servers at once: all of them in parallel, each as
// [Client.Register] does. Specs with StartSupervised, as the config package
// makes them, are all accepted at once and start in the background; Apply
// waits for the first start of the others.
//
// Specs that fail do not keep the others from starting. The error joins one
// *Error for each of them, whose Server says which; it is nil if all were
// accepted.
func (c *Client) Apply(ctx context.Context, specs []ServerSpec) error {
	errs := make([]error, len(specs))
	var wg sync.WaitGroup
	for i, spec := range specs {
		wg.Go(func() { errs[i] = c.Register(ctx, spec) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
