package facade

import (
	"context"
	"errors"
	"runtime"

	"github.com/mcpvisor/mcpvisor"
)

// startsPerCore bounds how many first starts [Client.Apply] waits for at once. A start
// mostly waits, so it is a multiple of the cores; with a thousand starts at once none
// would finish in time.
const startsPerCore = 16

// Apply registers many servers at once, each as [Client.Register] does, at most 16 per
// core at a time. Specs with StartSupervised, as package config makes them, are accepted
// at once and start in the background; Apply waits for the first start of the others.
//
// A spec that fails does not keep the others from starting. Of two specs with the same
// name the first is registered and the second fails with ErrExists. The error is an
// errors.Join of one *[mcpvisor.Error] for each spec that failed, in their order, whose
// Server names the spec; nil if all were accepted. errors.As finds only the first. To get
// all of them:
//
//	if joined, ok := err.(interface{ Unwrap() []error }); ok {
//		for _, err := range joined.Unwrap() {
//			var e *mcpvisor.Error
//			if errors.As(err, &e) {
//				log.Println(e.Server, e)
//			}
//		}
//	}
func (c *Client) Apply(ctx context.Context, specs []mcpvisor.ServerSpec) error {
	_ = ctx.Err() // a nil ctx panics here, and not in a goroutine
	errs := make([]error, len(specs))
	first := make(map[string]int, len(specs))
	for i, spec := range specs {
		if earlier, twice := first[spec.Name]; twice {
			errs[i] = sameNameError(spec.Name, earlier, i)
			continue
		}
		first[spec.Name] = i
	}
	inParallel(len(specs), startsPerCore*runtime.GOMAXPROCS(0), func(i int) {
		if errs[i] == nil {
			errs[i] = c.Register(ctx, specs[i])
		}
	})
	return errors.Join(errs...)
}
