package jsonrpc

import (
	"context"
)

// ExchangeEnd is the cause of an exchange's context: why the exchange ended before
// it was finished. err is context.Canceled or context.DeadlineExceeded.
type ExchangeEnd struct{ Err, Cause error }

// Error implements error.
func (e *ExchangeEnd) Error() string { return e.Cause.Error() }

// Is makes a deadline of the exchange, or of its caller, look like one to net/http
// and to the endpoint.
func (e *ExchangeEnd) Is(target error) bool { return target == e.Err }

// ContextEnd returns why a context ended: context.Canceled or
// context.DeadlineExceeded, and its cause. Both are nil while it has not.
func ContextEnd(ctx context.Context) (err, cause error) {
	cause = context.Cause(ctx)
	if e, ok := cause.(*ExchangeEnd); ok {
		return e.Err, e.Cause
	}
	return ctx.Err(), cause
}
