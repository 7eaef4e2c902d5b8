package guard

import (
	"context"
	"net/http/httptrace"
	"reflect"
)

// Trace guards the hooks of the httptrace.ClientTrace in ctx. Packages net and
// net/http call them in their own goroutines. Without a trace it returns ctx.
func Trace(ctx context.Context) context.Context {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		return ctx
	}
	own := *trace
	fields := reflect.ValueOf(&own).Elem()
	for i := range fields.NumField() {
		hook := fields.Field(i)
		if hook.Kind() == reflect.Func && !hook.IsNil() {
			hook.Set(guardedHook(hook.Interface()))
		}
	}
	// Package net finds its hooks under a key of its own, and there they are not
	// guarded yet. WithClientTrace with an empty trace copies the guarded hooks and
	// sets both keys.
	return httptrace.WithClientTrace(guardedTrace{ctx, &own}, &httptrace.ClientTrace{})
}

// guardedHook returns a function of the same type that returns zero values if hook
// panics.
func guardedHook(hook any) reflect.Value {
	f := reflect.ValueOf(hook)
	return reflect.MakeFunc(f.Type(), func(args []reflect.Value) (results []reflect.Value) {
		defer func() {
			if recover() != nil {
				results = nil
				for i := range f.Type().NumOut() {
					results = append(results, reflect.Zero(f.Type().Out(i)))
				}
			}
		}()
		return f.Call(args)
	})
}

// guardedTrace is a context with another trace in it.
type guardedTrace struct {
	context.Context
	trace *httptrace.ClientTrace
}

// Value implements context.Context.
func (c guardedTrace) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return c.trace
	}
	return v
}
