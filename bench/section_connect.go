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

// connecting compares starting many servers in parallel, listing them
// included, and closing them.
func connecting(ctx context.Context) error {
	t := newTable("Connecting and closing many stdio servers", "servers", "what", "client", "ms", "× go-sdk", "KB allocated", "less")
	counts, err := numbers(*servers)
	if err != nil {
		return err
	}
	target := stdioTarget("fast")
	for _, n := range counts {
		err := contest(ctx, t, fmt.Sprint(n), max(3, *rounds/2), []string{"connect", "close"},
			episode{"go-sdk", func(ctx context.Context) ([]reading, error) { return connectSDK(ctx, target, n) }},
			episode{"mcpvisor", func(ctx context.Context) ([]reading, error) { return connectOurs(ctx, target, n) }})
		if err != nil {
			return err
		}
	}
	return t.end()
}

// unhurried are clocks that no start of hundreds of processes reaches.
var unhurried = mcpvisor.Timeouts{Start: 5 * time.Minute, Negotiate: time.Minute, List: 5 * time.Minute}

// inParallel does something for each of n servers at once.
func inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func connectSDK(ctx context.Context, t target, n int) ([]reading, error) {
	arms := make([]arm, n)
	up, err := timed(func() error {
		return inParallel(n, func(i int) error {
			a, err := newSDKArm(ctx, t)
			if err != nil {
				return err
			}
			arms[i] = a
			tools := 0
			for _, err := range a.(*sdkArm).session.Tools(ctx, nil) {
				if err != nil {
					return err
				}
				tools++
			}
			if tools != 3 {
				return fmt.Errorf("%d tools", tools)
			}
			return nil
		})
	})
	down, _ := timed(func() error {
		return inParallel(n, func(i int) error {
			if arms[i] != nil {
				arms[i].close()
			}
			return nil
		})
	})
	return []reading{up, down}, err
}

func connectOurs(ctx context.Context, t target, n int) ([]reading, error) {
	c, err := facade.New()
	if err != nil {
		return nil, err
	}
	up, err := timed(func() error {
		return inParallel(n, func(i int) error {
			s := spec(fmt.Sprintf("s%03d", i), t)
			s.Timeouts = unhurried
			return c.Register(ctx, s)
		})
	})
	if err == nil && len(c.Tools()) != 3*n {
		err = fmt.Errorf("%d tools", len(c.Tools()))
	}
	down, closed := timed(func() error { return c.Close(ctx) })
	return []reading{up, down}, errors.Join(err, closed)
}
