package facade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpvisor/mcpvisor"
)

// KeepOthers in keep of [Client.Apply] stands for all servers without a spec. It is for programs in which several
// parts register servers.
const KeepOthers = "*"

// Apply makes the registered servers those of specs, for example after a configuration file
// has changed:
//
//   - a server without a spec is unregistered, even if Register registered it, unless keep has
//     its name, or is [KeepOthers];
//   - a new spec is registered;
//   - a spec that is not [mcpvisor.ServerSpec.Equal] to that of its server replaces it; a
//     spec with functions is equal only with the same pointers (InMemory, Transport,
//     HTTP.Auth), which a program therefore makes once; one that an operator has stopped remains stopped;
//   - a server with an equal spec is left alone, whatever its state: its calls continue, and one
//     that is down or evicted is not started ([Client.Restart] does that).
//
// Names in keep are left as they are: a registered server continues, and a spec of that name
// is not used. keep is for servers that the program has registered itself, and for entries
// of a file that cannot be used at present (config.File.Broken).
//
// Servers are unregistered first, so that new ones can use what they held: all at once, except that a server ends
// after those that come after it. The calls in flight of a server that is unregistered or replaced may end before, as with [WithDrain]: within Timeouts.Drain of
// its old spec, or else with ErrClosed and OutcomeUnknown. Subscriptions and the log level pass to the new server.
//
// A server over HTTP, and one whose new spec has Overlap or Standby, starts beside the old one, which gets
// the calls and is listed until the new one is ready. Apply waits for that start, whatever StartSupervised
// says. If it fails, the old server continues as it was, and a second Apply tries again. There are never
// more than two: the next replacement waits until the first server has ended. All other servers, those that
// are Exclusive, and those that are not ready are replaced when the old one has released everything.
// Meanwhile the name stays taken: a call is not sent, and fails with ErrUnavailable, or waits for the new server
// with [WithWaitReady]. Starts are bounded and awaited as in [Client.Register]. If the first start
// of such a replacement without StartSupervised fails, the name is unregistered: the old server is gone.
//
// One Apply runs at a time; another waits until it is complete. A Register or Unregister by
// another goroutine takes effect before Apply or after it.
//
// Errors: nil, or an errors.Join of one *[mcpvisor.Error] for each server that failed, in
// the order of specs and then of names, as [Client.Register] returns them. Each is an error of
// Register: ErrInvalid (the server that has the name continues), ErrExists (two specs have one
// name; the first counts), ErrStart, ErrAuthRequired, ErrUnavailable (an operator has stopped the server meanwhile), ErrClosed; or of Unregister:
// ErrLeftBehind (the server is gone; what a replaced one leaves behind is in the log only).
// ErrCanceled: ctx ended; what had begun continues, and nothing else was begun. A second
// Apply completes it.
func (c *Client) Apply(ctx context.Context, specs []mcpvisor.ServerSpec, keep ...string) error {
	select {
	case c.applying <- struct{}{}:
		defer func() { <-c.applying }()
	case <-ctx.Done():
		return errors.Join(endedBefore(ctx, "", "apply"))
	}
	first, errs := byName(specs)
	others := slices.Contains(keep, KeepOthers)
	unregistered := c.unregisterOthers(ctx, func(name string) bool {
		_, wanted := first[name]
		return wanted || others || slices.Contains(keep, name)
	})
	var changed []mcpvisor.ServerSpec
	var index []int
	for i, spec := range specs {
		if errs[i] == nil && !slices.Contains(keep, spec.Name) && !c.isApplied(spec) {
			changed, index = append(changed, spec), append(index, i)
		}
	}
	failed := make([]error, len(changed))
	if c.hasOrder(specs) {
		c.startTogether(ctx, changed, failed, c.rt.ReplaceAll)
	} else {
		inParallel(len(changed), c.opts.startsAtOnce(), func(i int) {
			c.startTogether(ctx, changed[i:i+1], failed[i:i+1], c.rt.ReplaceAll)
		})
	}
	for i, spec := range changed {
		c.validator.forget(spec.Name)
		errs[index[i]] = failed[i]
	}
	return errors.Join(slices.Concat(errs, unregistered)...)
}

// unregisterOthers ends all servers whose names are not wanted.
func (c *Client) unregisterOthers(ctx context.Context, wanted func(name string) bool) []error {
	names := slices.DeleteFunc(c.Servers(), wanted)
	if ctx.Err() != nil {
		errs := make([]error, len(names))
		for i, name := range names {
			errs[i] = endedBefore(ctx, name, "unregister "+name)
		}
		return errs
	}
	errs := c.rt.UnregisterAll(ctx, names)
	for i, name := range names {
		c.validator.forget(name)
		if errs[i] = c.withServerOp(errs[i], name, "unregister "+name); errors.Is(errs[i], mcpvisor.ErrUnknownServer) { // it is gone already
			errs[i] = nil
		}
	}
	return errs
}

// isApplied reports whether a server is registered with an equal spec.
func (c *Client) isApplied(spec mcpvisor.ServerSpec) bool {
	v := c.rt.Snapshot().Server(spec.Name)
	return v != nil && !v.Leaving() && v.Spec.Equal(spec)
}

// byName returns the first spec of each name, and an error in the place of each other one.
func byName(specs []mcpvisor.ServerSpec) (first map[string]int, errs []error) {
	first, errs = make(map[string]int, len(specs)), make([]error, len(specs))
	for i, spec := range specs {
		if earlier, twice := first[spec.Name]; twice {
			errs[i] = &mcpvisor.Error{Server: spec.Name, Op: "register " + spec.Name, Kind: mcpvisor.ErrExists,
				Cause: fmt.Errorf("specs %d and %d of the list have the same name", earlier+1, i+1), Hint: "rename one of them"}
			continue
		}
		first[spec.Name] = i
	}
	return first, errs
}

// inParallel calls f for 0 to n-1, at most that many of them at once, and waits for all.
func inParallel(n, most int, f func(i int)) {
	slots := make(chan struct{}, max(most, 1))
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}
