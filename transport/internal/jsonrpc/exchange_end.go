package jsonrpc

import (
	"context"
)

// ExchangeEnd is the context cause of an HTTP exchange that ended before its response was
// read. Err is context.Canceled or context.DeadlineExceeded; Cause says why.
type ExchangeEnd struct{ Err, Cause error }

// Error implements error.
func (e *ExchangeEnd) Error() string { return e.Cause.Error() }

// Is reports true for context.Canceled or context.DeadlineExceeded, whichever Err is.
// net/http and package endpoint use errors.Is to tell the two apart.
func (e *ExchangeEnd) Is(target error) bool { return target == e.Err }

// ContextEnd returns why a context ended: context.Canceled or context.DeadlineExceeded,
// and its cause. Both are nil if the context has not ended.
func ContextEnd(ctx context.Context) (err, cause error) {
	cause = context.Cause(ctx)
	if e, ok := cause.(*ExchangeEnd); ok {
		return e.Err, e.Cause
	}
	return ctx.Err(), cause
}
