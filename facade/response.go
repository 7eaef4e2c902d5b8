package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/textresult"
)

// response is the result of a request, and what bounds its decoding.
type response struct {
	raw     json.RawMessage
	view    *actors.View
	began   time.Time
	queued  time.Duration // of the time since began: the call's timeout begins after it
	timeout time.Duration // of the call; 0 means the server's
	task    *follower     // instead of a result, of a detached call
	share   *budget.Share // of Limits.MaxBufferBytes; its maker releases it after decoding
}

// isLarge reports whether the result is measured before it is decoded.
func (r *response) isLarge() bool { return len(r.raw) >= jsonbound.LargeBytes }

// errDecodingOverdue is the cause of a context that ends with the timeouts of its call.
// mcpvisor.ErrTimeout would not do: the context of a caller may end with the ErrTimeout
// of another call.
var errDecodingOverdue = errors.New("the call has timed out")

// decodeContext is ctx with the time that the timeouts of the call have left for
// decoding. If progress has restarted the call's timeout, decoding gets all of it.
func (r *response) decodeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	idle, total := actors.CallTimeouts(r.view.Spec.Timeouts, r.timeout)
	now := time.Now()
	deadline := time.Time{}
	if idle > 0 {
		if deadline = r.began.Add(r.queued + idle); deadline.Before(now) {
			deadline = now.Add(idle)
		}
	}
	if latest := r.began.Add(total); total > 0 && (deadline.IsZero() || latest.Before(deadline)) {
		deadline = latest
	}
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, deadline, errDecodingOverdue)
}

// decodeResult decodes a result and releases its share of the buffer.
func decodeResult[T any](ctx context.Context, r *response) (*T, error) {
	defer r.share.Release() // even of a small result, which may have come in a large message
	if r.isLarge() {
		ctx, cancel := r.decodeContext(ctx)
		defer cancel()
		return decodeLarge(ctx, r, decodeWhole[T])
	}
	return decodeWhole[T](ctx, r.raw)
}

// decodeWhole decodes a result without limits.
func decodeWhole[T any](_ context.Context, raw json.RawMessage) (*T, error) {
	v := new(T)
	err := checkResult(raw)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err == nil {
		err = checkNoNil(v)
	}
	if err != nil {
		return nil, unreadableResult(err)
	}
	return v, nil
}

// checkResult refuses a result that is not an object, and one that does not complete
// the request. Since 2026-07-28 a result names its type in resultType. An absent one
// means complete; a client must not treat a type that it does not know as complete
// (MCP, basic, results).
func checkResult(raw []byte) error {
	err := jsonscan.EachMember(raw, func(name string, value []byte) error {
		if name == "resultType" && string(value) != `"complete"` && string(value) != "null" {
			return fmt.Errorf("unknown resultType %.40s", value)
		}
		return nil
	})
	if errors.Is(err, jsonscan.ErrNotObject) {
		return errors.New("the result is not a JSON object")
	}
	return err
}

// checkNoNil refuses a list with a null entry: the caller would dereference a nil.
func checkNoNil(result any) error {
	incomplete := func(c mcp.Content) bool {
		r, embedded := c.(*mcp.EmbeddedResource)
		return c == nil || embedded && r.Resource == nil
	}
	found := false
	switch r := result.(type) {
	case *mcp.ReadResourceResult:
		found = slices.Contains(r.Contents, nil)
	case *mcp.GetPromptResult:
		found = slices.ContainsFunc(r.Messages, func(m *mcp.PromptMessage) bool { return m == nil || incomplete(m.Content) })
	case *completionResult:
		found = r.Completion == nil
	case *mcp.CallToolResult:
		found = slices.ContainsFunc(r.Content, incomplete)
	}
	if found {
		return errors.New("an entry of the result is missing")
	}
	return nil
}

// maxResultQuote bounds what an error quotes of a result, in bytes.
const maxResultQuote = 1 << 10

// unreadableResult is the error of a result that cannot be decoded.
func unreadableResult(err error) *mcpvisor.Error {
	if text := err.Error(); len(text) > maxResultQuote {
		err = errors.New(strings.ToValidUTF8(text[:maxResultQuote], "") + " …")
	}
	return &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered,
		Cause: fmt.Errorf("the server's result cannot be read: %w", err)}
}

// decodeToolResult decodes the result of a tool call and releases its share of the buffer.
func decodeToolResult(ctx context.Context, got *response) (*mcp.CallToolResult, error) {
	defer got.share.Release()
	if got.isLarge() {
		ctx, cancel := got.decodeContext(ctx)
		defer cancel()
		if r := decodeLargeText(ctx, got); r != nil {
			return r, nil
		}
		r, err := decodeLarge(ctx, got, decodeWholeToolResult)
		return r, withRawHint(err, "CallToolRaw")
	}
	// The answer is here, and to decode it takes no time: the end of ctx no longer matters.
	r, err := decodeWholeToolResult(context.Background(), got.raw)
	return r, withRawHint(err, "CallToolRaw")
}

// decodeWholeToolResult decodes the result of a tool call without limits. Most results are
// plain text, which [textresult.Decode] reads in one pass; the go-sdk decodes all others.
func decodeWholeToolResult(ctx context.Context, raw json.RawMessage) (*mcp.CallToolResult, error) {
	if r := textresult.Decode(ctx, raw); r != nil {
		return r, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return decodeWhole[mcp.CallToolResult](ctx, raw)
}

// withRawHint adds to the error of a result by which method to get it undecoded. It returns a
// copy.
func withRawHint(err error, method string) error {
	e, ok := err.(*mcpvisor.Error)
	if !ok || e == nil || e.Kind != mcpvisor.ErrProtocol {
		return err
	}
	hinted := *e
	if hinted.Hint != "" {
		hinted.Hint += "; "
	}
	hinted.Hint += method + " returns it undecoded"
	return &hinted
}

// decodeLarge decodes a large result within ctx, which is that of decodeContext. First it is
// measured, and refused if it exceeds Limits.MaxElements or Limits.MaxDecodedBytes. Because
// a decoder cannot be interrupted, it runs in a goroutine, which has the share of
// the buffer until it ends, and the caller waits for it no longer than for the call.
func decodeLarge[T any](ctx context.Context, r *response, decode func(context.Context, json.RawMessage) (*T, error)) (*T, error) {
	limits := r.view.Spec.Limits
	size, err := jsonbound.Check(ctx, r.raw, jsonbound.Limits{Elements: limits.MaxElements, Bytes: limits.MaxDecodedBytes})
	if err == nil {
		err = r.share.Grow(ctx, nil, size.Bytes)
	}
	if err != nil {
		return nil, largeResultError(ctx, err)
	}
	type outcome struct {
		v   *T
		err error
	}
	raw, share, done := r.raw, new(budget.Share), make(chan outcome, 1)
	if r.share != nil {
		share.TakeOver(r.share)
	}
	go func() {
		defer share.Release()
		v, err := decode(ctx, raw)
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		if o.err == nil || ctx.Err() == nil {
			return o.v, o.err
		}
	case <-ctx.Done():
	}
	return nil, largeResultError(ctx, ctx.Err())
}

// decodeLargeText decodes a large result whose content is a few blocks of text within ctx,
// which is that of decodeContext. It does not measure it first: such text is about as large in
// memory as it was in the message. It returns nil for any other result, for one beyond the
// limits, and when ctx ends.
func decodeLargeText(ctx context.Context, r *response) *mcp.CallToolResult {
	t, ok := textresult.Parse(ctx, r.raw, textresult.MaxEstimatedBlocks)
	if !ok {
		return nil
	}
	size, ok := t.MaxSize(r.raw)
	limits := r.view.Spec.Limits
	if !ok || exceeds(size.Elements, limits.MaxElements) || exceeds(size.Bytes, limits.MaxDecodedBytes) {
		return nil
	}
	if r.share.Grow(ctx, nil, size.Bytes) != nil {
		return nil
	}
	return t.Build(ctx, r.raw)
}

// exceeds reports whether n is above a limit; 0 sets no limit.
func exceeds(n, limit int) bool { return limit > 0 && n > limit }

// largeResultError is the error of a large result whose decoding failed or was
// interrupted.
func largeResultError(ctx context.Context, err error) *mcpvisor.Error {
	var exceeded *jsonbound.Error
	switch {
	case ctx.Err() != nil:
		e := &mcpvisor.Error{Kind: mcpvisor.ErrCanceled, Outcome: mcpvisor.OutcomeAnswered, Cause: context.Cause(ctx), Hint: "the server has answered; decoding the result took too long"}
		if errors.Is(context.Cause(ctx), errDecodingOverdue) {
			e.Kind, e.Cause = mcpvisor.ErrTimeout, nil
		}
		return e
	case errors.As(err, &exceeded):
		limit := "Limits.MaxElements"
		if exceeded.Kind == jsonbound.KindBytes {
			limit = "Limits.MaxDecodedBytes"
		}
		return &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("the server's result is too large to decode: it holds %w", err), Hint: "raise " + limit + " if such results are expected"}
	}
	return unreadableResult(err)
}
