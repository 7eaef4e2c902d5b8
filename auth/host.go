package auth

import (
	"context"
	"errors"
	"fmt"
)

// hosted calls a function of the host's: its Store, Visit, Assertion or IDToken.
// One that does not heed its context is left behind when that ends, and a panic
// is an error: neither may hold up or bring down what is not the host's. late, if
// there is one, gets what comes when nobody waits for it any more.
func hosted[T any](ctx context.Context, what string, late func(T), call func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: errors.New("the host's " + what + " ended its goroutine")}
		defer func() {
			if v := recover(); v != nil {
				o.err = fmt.Errorf("the host's %s panicked: %v", what, v)
			}
			done <- o
		}()
		o.value, o.err = call(ctx)
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		if late != nil {
			go func() {
				if o := <-done; o.err == nil {
					late(o.value)
				}
			}()
		}
		var none T
		return none, fmt.Errorf("the host's %s was not waited for: %w", what, context.Cause(ctx))
	}
}

// asHosted is hosted for what returns nothing.
func asHosted(ctx context.Context, what string, call func(context.Context) error) error {
	_, err := hosted(ctx, what, nil, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}
