package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// compareConnecting compares starting many servers in parallel, listing them
// included, and closing them.
func compareConnecting(ctx context.Context) error {
	t := newTable("Connecting and closing many stdio servers", append([]string{"servers", "what"}, operationColumns...)...)
	counts, err := numbers(*servers)
	if err != nil {
		return err
	}
	target := stdioTarget("fast")
	for _, n := range counts {
		err := compareOperations(ctx, t, fmt.Sprint(n), max(3, *rounds/2), []string{"connect", "close"},
			operation{clientSDK, func(ctx context.Context) ([]measurement, error) { return connectDrivers(ctx, target, n, newSDKDriver) }},
			operation{clientMCPGo, func(ctx context.Context) ([]measurement, error) {
				return connectDrivers(ctx, target, n, newMCPGoDriver)
			}},
			operation{clientOurs, func(ctx context.Context) ([]measurement, error) { return connectFacade(ctx, target, n) }},
			operation{clientBare, func(context.Context) ([]measurement, error) { return connectPipes(target, n) }})
		if err != nil {
			return err
		}
	}
	return t.end()
}

// longTimeouts are long enough for the start of hundreds of processes at once.
var longTimeouts = mcpvisor.Timeouts{Start: 5 * time.Minute, Negotiate: time.Minute, List: 5 * time.Minute}

// inParallel runs f for each of n servers at once.
func inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// connectDrivers connects a client for each server.
func connectDrivers(ctx context.Context, t target, n int, open openFunc) ([]measurement, error) {
	drivers := make([]driver, n)
	up, err := timed(func() error {
		return inParallel(n, func(i int) error {
			a, err := open(ctx, t)
			if err != nil {
				return err
			}
			drivers[i] = a
			tools, err := a.(lister).list(ctx)
			if err == nil && tools != 3 {
				err = fmt.Errorf("%d tools", tools)
			}
			return err
		})
	})
	down, _ := timed(func() error {
		return inParallel(n, func(i int) error {
			if drivers[i] != nil {
				drivers[i].close()
			}
			return nil
		})
	})
	return []measurement{up, down}, err
}

// connectPipes is the floor: processes, and two answers of each that are not looked at.
func connectPipes(t target, n int) ([]measurement, error) {
	pipes := make([]*barePipe, n)
	up, err := timed(func() error {
		return inParallel(n, func(i int) error {
			var err error
			if pipes[i], err = startPipe(t); err == nil {
				err = pipes[i].list()
			}
			return err
		})
	})
	down, _ := timed(func() error {
		return inParallel(n, func(i int) error {
			if pipes[i] != nil {
				pipes[i].close()
			}
			return nil
		})
	})
	return []measurement{up, down}, err
}

func connectFacade(ctx context.Context, t target, n int) ([]measurement, error) {
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	up, err := timed(func() error {
		return inParallel(n, func(i int) error {
			s := spec(fmt.Sprintf("s%03d", i), t)
			s.Timeouts = longTimeouts
			return c.Register(ctx, s)
		})
	})
	if err == nil && len(c.Tools()) != 3*n {
		err = fmt.Errorf("%d tools", len(c.Tools()))
	}
	down, closed := timed(func() error { return c.Close(ctx) })
	return []measurement{up, down}, errors.Join(err, closed)
}
