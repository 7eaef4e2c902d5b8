package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/textresult"
)

// A large result is decoded within the call's context and timeouts. First it is
// measured, and refused if it exceeds Limits.MaxElements or Limits.MaxDecodedBytes. Then
// it is decoded in parts, with a look at the context after each, because encoding/json
// cannot be interrupted.

const (
	// partBytes is about how much of a list is decoded at once.
	partBytes = 256 << 10
	// maxPartElements bounds a part that cannot be divided: one entry of a list, or the
	// members beside the list. Decoding that many takes less than 100 ms.
	maxPartElements = 100_000
	// maxInlinePart is the longest part, in bytes, that is decoded in the caller's
	// goroutine. A longer one holds a long text, such as an image, and can take a second.
	maxInlinePart = 4 << 20
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
	t, ok := textresult.Parse(ctx, r.raw)
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
	if _, err := jsonbound.Check(ctx, text, jsonbound.Limits{Elements: maxPartElements}); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, &partError{err}
	}
	v := new(T)
	if len(text) <= maxInlinePart {
		return v, json.Unmarshal(text, v)
	}
	done := make(chan error, 1)
	go func() { done <- json.Unmarshal(text, v) }()
	select {
	case err := <-done:
		return v, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
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
