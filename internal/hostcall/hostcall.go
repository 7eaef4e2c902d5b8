// Package hostcall calls what the host supplies: functions, RoundTrippers, cookie jars,
// stores, writers. A panic in them becomes an error, so that it costs one request. A
// function that does not return when its context ends is left behind in its goroutine, so
// that its caller does not wait for it.
//
// The host is trusted as net/http trusts it. What net/http and crypto/tls call in their own
// goroutines (connections, TLS callbacks, httptrace hooks) is called as it is.
package hostcall

import (
	"context"
	"errors"
	"fmt"
)

// PanicError returns the error about something of the host that panicked with v.
func PanicError(what string, v any) error { return fmt.Errorf("the host's %s panicked: %v", what, v) }

// goexitError returns the error about a function that called runtime.Goexit, as
// t.FailNow does.
func goexitError(what string) error { return errors.New("the host's " + what + " ended its goroutine") }

// SafeError returns err, or another error if err.Error panics. A nil pointer in an
// error interface does.
func SafeError(what string, err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			safe = fmt.Errorf("the host's %s returned an error of type %T that panicked: %v", what, err, v)
		}
	}()
	_ = err.Error()
	return err
}

// Call calls f in a goroutine of its own, which f may end, and waits for it. It returns the error of f, or
// its panic or runtime.Goexit as an error. what names f in the error.
func Call(what string, f func() error) (err error) {
	err = goexitError(what)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = CallHere(what, f)
	}()
	<-done
	return err
}

// CallHere is Call in the calling goroutine, for functions that are called for every message. If f ends
// the goroutine, the caller has to notice that.
func CallHere(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = PanicError(what, v)
		}
	}()
	return SafeError(what, f())
}

// Value is Call for a function that returns a value.
func Value[T any](what string, f func() (T, error)) (value T, err error) {
	err = Call(what, func() (err error) {
		value, err = f()
		return err
	})
	return value, err
}

// ValueHere is CallHere for a function that returns a value.
func ValueHere[T any](what string, f func() (T, error)) (value T, err error) {
	err = CallHere(what, func() (err error) {
		value, err = f()
		return err
	})
	return value, err
}

// Wait calls f in a new goroutine and waits for it until ctx ends. A value that f
// returns after that goes to late, unless late is nil.
func Wait[T any](ctx context.Context, what string, late func(T), f func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: goexitError(what)}
		defer func() { done <- o }()
		value, err := ValueHere(what, func() (T, error) { return f(ctx) })
		o = outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		if late != nil {
			go func() {
				if o := <-done; o.err == nil {
					_ = Call(what, func() error { late(o.value); return nil })
				}
			}()
		}
		var none T
		return none, fmt.Errorf("the host's %s did not return in time: %w", what, context.Cause(ctx))
	}
}

// Do is Wait for a function that returns no value.
func Do(ctx context.Context, what string, f func(context.Context) error) error {
	_, err := Wait(ctx, what, nil, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}
