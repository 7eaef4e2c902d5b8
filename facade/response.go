package facade

import (
	"bytes"
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

// decodeResult decodes a result and releases its share of the buffer. list and add are
// for [decodeLarge].
func decodeResult[T any](ctx context.Context, r *response, list string, add func(whole, part *T)) (*T, error) {
	defer r.share.Release() // even of a small result, which may have come in a large message
	if r.isLarge() {
		return decodeLarge(ctx, r, list, add)
	}
	v := new(T)
	err := checkResult(r.raw)
	if err == nil {
		err = json.Unmarshal(r.raw, v)
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
	return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
		Cause: fmt.Errorf("the server's result cannot be read: %w", err)}
}

// decodeToolResult decodes the result of a tool call. Most results are plain text, which
// [textresult.Decode] reads in one pass; the go-sdk decodes all others.
func decodeToolResult(ctx context.Context, got *response) (*mcp.CallToolResult, error) {
	if got.isLarge() {
		r, err := decodeLarge(ctx, got, "content", func(whole, part *mcp.CallToolResult) {
			whole.Content = append(whole.Content, part.Content...)
		})
		return r, withRawHint(err, "CallToolRaw")
	}
	r, err := decodeWholeToolResult(ctx, got.raw)
	return r, withRawHint(err, "CallToolRaw")
}

// decodeWholeToolResult decodes a result at once, without limits.
func decodeWholeToolResult(ctx context.Context, raw json.RawMessage) (*mcp.CallToolResult, error) {
	if r := textresult.Decode(ctx, raw); r != nil {
		return r, nil
	}
	r := new(mcp.CallToolResult)
	err := checkResult(raw)
	if err == nil {
		err = r.UnmarshalJSON(raw)
	}
	if err == nil {
		err = checkNoNil(r)
	}
	if err != nil {
		return nil, unreadableResult(err)
	}
	return r, nil
}

// withRawHint adds to the error of a result by which method to get it undecoded. It returns a
// copy.
func withRawHint(err error, method string) error {
	e, ok := err.(*mcpvisor.Error)
	if !ok || e == nil || e.Kind != mcpvisor.KindProtocol {
		return err
	}
	hinted := *e
	if hinted.Hint != "" {
		hinted.Hint += "; "
	}
	hinted.Hint += method + " returns it undecoded"
	return &hinted
}

// A large result is decoded within the call's context and timeouts. First it is
// measured, and refused if it exceeds Limits.MaxElements or Limits.MaxDecodedBytes. Then
// it is decoded in parts, with a look at the context after each, because encoding/json
// cannot be interrupted.

const (
	// partBytes is about how much of a list is decoded at once.
	partBytes = 256 << 10
	// maxPartElements bounds a part that cannot be divided: one entry of a list, or the
	// members beside the list. Decoding that many takes some seconds at most, if they
	// are numbers of many digits, and less than 100 ms as a rule.
	maxPartElements = 100_000
	// maxInlinePart and maxInlineElements bound a part, in bytes and in values, that is
	// decoded in the caller's goroutine. A larger one can take longer than the call has.
	maxInlinePart     = 4 << 20
	maxInlineElements = 4096
)

// decodeLarge decodes a large result. list names the member that is a list, and add
// appends the list of one result to that of another.
func decodeLarge[T any](ctx context.Context, r *response, list string, add func(whole, part *T)) (*T, error) {
	defer r.share.Release()
	ctx, cancel := r.decodeContext(ctx)
	defer cancel()
	if _, ok := any((*T)(nil)).(*mcp.CallToolResult); ok {
		if result := decodeLargeText(ctx, r); result != nil {
			return any(result).(*T), nil
		}
	}
	limits := r.view.Spec.Limits
	size, err := jsonbound.Check(ctx, r.raw, jsonbound.Limits{Elements: limits.MaxElements, Bytes: limits.MaxDecodedBytes})
	if err == nil {
		err = r.share.Grow(ctx, nil, size.Bytes)
	}
	if err != nil {
		return nil, largeResultError(ctx, err)
	}
	if _, ok := any((*T)(nil)).(*mcp.CallToolResult); ok {
		if result := textresult.Decode(ctx, r.raw); result != nil {
			return any(result).(*T), nil
		}
	}
	v, err := decodeParts(ctx, r.raw, list, add)
	if err != nil {
		return nil, largeResultError(ctx, err)
	}
	return v, nil
}

// decodeLargeText decodes a large result whose content is a few blocks of text, without
// measuring it first: such text is about as large in memory as it was in the message. It
// returns nil for any other result, for one beyond the limits, and when ctx ends.
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

// decodeParts decodes a result: the entries of its list in parts, _meta and structured
// content with [jsonscan], which can be interrupted, and the other members at once.
func decodeParts[T any](ctx context.Context, raw []byte, list string, add func(whole, part *T)) (*T, error) {
	if err := checkResult(raw); err != nil {
		return nil, err
	}
	m, err := splitResult(raw, list)
	if err != nil {
		return nil, err
	}
	v, err := decodePart[T](ctx, m.rest)
	if err != nil {
		return nil, err
	}
	for entries := (jsonscan.Scanner{Text: m.list, Pos: 1}); m.list != nil; {
		text, err := nextPart(&entries, list)
		if err != nil {
			return nil, err
		}
		if text == nil {
			break
		}
		part, err := decodePart[T](ctx, text)
		if err != nil {
			return nil, err
		}
		add(v, part)
	}
	if err := m.decodeValues(ctx, v); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return v, checkNoNil(v)
}

// resultMembers are the members of a result that are decoded separately. If a member
// occurs twice the last one counts, as in encoding/json.
type resultMembers struct {
	list, meta, structured []byte // nil if the result has no such member
	rest                   []byte // an object of the other members, with an empty list
}

// splitResult splits a result into its members. A list that is not an array stays in
// rest, where the decoder refuses it.
func splitResult(raw []byte, list string) (m resultMembers, err error) {
	var other []byte
	err = jsonscan.EachMember(raw, func(name string, value []byte) error {
		switch {
		case name == list && value[0] == '[':
			m.list = value
		case name == "_meta":
			m.meta = value
		case name == "structuredContent":
			m.structured = value
		default:
			quoted, _ := json.Marshal(name) // a string always marshals
			other = append(append(append(append(other, ','), quoted...), ':'), value...)
		}
		return nil
	})
	if err != nil {
		return m, errors.New("the result is not valid JSON")
	}
	m.rest = append([]byte{'{'}, bytes.TrimPrefix(other, []byte{','})...)
	if m.list != nil {
		if len(other) > 0 {
			m.rest = append(m.rest, ',')
		}
		m.rest = fmt.Appendf(m.rest, "%q:[]", list)
	}
	m.rest = append(m.rest, '}')
	return m, nil
}

// nextPart returns a result that has only the next entries of the list; nil at the end.
// s stands in the list.
func nextPart(s *jsonscan.Scanner, list string) ([]byte, error) {
	start := s.Pos
	for s.SkipSpace(); !s.Consume(']'); s.SkipSpace() {
		if _, ok := s.Value(); !ok {
			return nil, errors.New("the result is not valid JSON")
		}
		end := s.Pos
		s.SkipSpace()
		if s.Consume(',') && end-start < partBytes {
			continue
		}
		return fmt.Appendf(nil, "{%q:[%s]}", list, s.Text[start:end]), nil
	}
	return nil, nil
}

// decodePart decodes a part that cannot be divided. It keeps text, also after it has
// returned.
func decodePart[T any](ctx context.Context, text []byte) (*T, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	size, err := jsonbound.Check(ctx, text, jsonbound.Limits{Elements: maxPartElements})
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, &partError{err}
	}
	v := new(T)
	if len(text) <= maxInlinePart && size.Elements <= maxInlineElements {
		err = json.Unmarshal(text, v)
	} else {
		done := make(chan error, 1)
		go func() { done <- json.Unmarshal(text, v) }()
		select {
		case err = <-done:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return v, err
}

// partError says that one part of a result exceeds maxPartElements, which is not
// configurable.
type partError struct{ error }

// decodeValues decodes _meta and structured content, which may be of any shape.
func (m *resultMembers) decodeValues(ctx context.Context, result any) error {
	var meta mcp.Meta
	if m.meta != nil {
		value, err := jsonscan.DecodeContext(ctx, m.meta)
		if err != nil {
			return err
		}
		object, ok := value.(map[string]any)
		if !ok && value != nil {
			return errors.New("its _meta is not an object")
		}
		meta = object
	}
	switch v := result.(type) {
	case *mcp.ReadResourceResult:
		v.Meta = meta
	case *mcp.GetPromptResult:
		v.Meta = meta
	case *mcp.CallToolResult:
		v.Meta = meta
		if m.structured == nil {
			return nil
		}
		value, err := jsonscan.DecodeContext(ctx, m.structured)
		v.StructuredContent = value
		return err
	}
	return nil
}

// largeResultError is the error of a large result whose decoding failed or was
// interrupted.
func largeResultError(ctx context.Context, err error) *mcpvisor.Error {
	var exceeded *jsonbound.Error
	var part *partError
	switch {
	case ctx.Err() != nil:
		e := &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeAnswered, Cause: context.Cause(ctx), Hint: "the server has answered; decoding the result took too long"}
		if errors.Is(context.Cause(ctx), errDecodingOverdue) {
			e.Kind, e.Cause = mcpvisor.KindTimeout, nil
		}
		return e
	case errors.As(err, &part):
		return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("the server's result is too large to decode: one part of it holds %w", part.error)}
	case errors.As(err, &exceeded):
		limit := "Limits.MaxElements"
		if exceeded.Kind == jsonbound.KindBytes {
			limit = "Limits.MaxDecodedBytes"
		}
		return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("the server's result is too large to decode: it holds %w", err), Hint: "raise " + limit + " if such results are expected"}
	}
	return unreadableResult(err)
}
