package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A large result is decoded under the call's context and clocks. It is measured
// first, and refused if it would take too much. Then it is decoded in parts,
// with a look at the context in between, because encoding/json has none.

const (
	// partBytes is about how much of a list is decoded at once.
	partBytes = 256 << 10
	// partElements bounds a part that cannot be divided: one entry of a list, or
	// the members beside the list. Decoding as much takes less than 100 ms.
	partElements = 100_000
	// partInline is the longest part that is decoded in the caller's goroutine. A
	// longer one holds a long text, such as an image, and can take a second.
	partInline = 4 << 20
)

// reply is the result of a request, and what bounds its decoding.
type reply struct {
	raw     json.RawMessage
	view    *actors.View
	began   time.Time
	timeout time.Duration // of the call; 0 means the server's
	held    *budget.Share // what it holds of Limits.Buffer; the caller that made it gives it back after decoding
}

// isLarge reports whether the result is measured before it is decoded.
func (r *reply) isLarge() bool { return len(r.raw) >= jsonbound.LargeBytes }

// clocks is the context in which the result is decoded: ctx, with what the
// clocks of the call have left. A call whose progress has restarted its clock
// has all of it again.
func (r *reply) clocks(ctx context.Context) (context.Context, context.CancelFunc) {
	idle, hardMax := actors.CallTimeouts(r.view.Spec.Timeouts, r.timeout)
	now := time.Now()
	end := time.Time{}
	if idle > 0 {
		if end = r.began.Add(idle); end.Before(now) {
			end = now.Add(idle)
		}
	}
	if latest := r.began.Add(hardMax); hardMax > 0 && (end.IsZero() || latest.Before(end)) {
		end = latest
	}
	if end.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, end, mcpvisor.ErrTimeout)
}

// measure refuses a result that holds or takes too much.
func (r *reply) measure(ctx context.Context) (jsonbound.Size, error) {
	limits := r.view.Spec.Limits
	return jsonbound.Check(ctx, r.raw, jsonbound.Limits{Elements: limits.MaxElements, Bytes: limits.MaxDecodedBytes})
}

// decodeLarge decodes a large result. list names its member that is a list, and
// add appends the list of one result to that of another.
func decodeLarge[T any](ctx context.Context, r *reply, list string, add func(whole, part *T)) (*T, error) {
	defer r.held.Release()
	ctx, cancel := r.clocks(ctx)
	defer cancel()
	size, err := r.measure(ctx)
	if err == nil {
		err = r.held.Grow(ctx, nil, size.Bytes)
	}
	if err != nil {
		return nil, undecoded(ctx, err)
	}
	if _, ok := any((*T)(nil)).(*mcp.CallToolResult); ok {
		if result := textResult(ctx, r.raw); result != nil {
			return any(result).(*T), nil
		}
	}
	v, err := decodeParts(ctx, r.raw, list, add)
	if err != nil {
		return nil, undecoded(ctx, err)
	}
	return v, nil
}

// decodeParts decodes the entries of a list part by part, _meta and structured
// content without encoding/json, and the rest at once.
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
	return v, holes(v)
}

// splitMembers are the parts of a result. A member that occurs twice counts as
// the last one, as in encoding/json.
type splitMembers struct {
	list, meta, structured []byte
	rest                   []byte // an object of the other members, with an empty list
}

// splitResult takes a result apart. A list that is no array stays in the rest,
// for the decoder to refuse.
func splitResult(raw []byte, list string) (m splitMembers, err error) {
	s := jsonscan.Scanner{Text: raw}
	s.SkipSpace()
	s.Consume('{')
	other := []byte(nil)
	for more := true; more; more = s.Consume(',') {
		s.SkipSpace()
		key, escaped, ok := s.String()
		if !ok {
			break
		}
		s.SkipSpace()
		s.Consume(':')
		s.SkipSpace()
		value, ok := s.Value()
		if !ok {
			return m, errors.New("the result is no valid JSON")
		}
		switch name := jsonscan.Unquote(key, escaped); {
		case name == list && value[0] == '[':
			m.list = value
		case name == "_meta":
			m.meta = value
		case name == "structuredContent":
			m.structured = value
		default:
			other = append(append(append(append(other, ','), key...), ':'), value...)
		}
		s.SkipSpace()
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

// nextPart is a result that holds the next entries of the list; nil at its end.
func nextPart(s *jsonscan.Scanner, list string) ([]byte, error) {
	start := s.Pos
	for s.SkipSpace(); !s.Consume(']'); s.SkipSpace() {
		if _, ok := s.Value(); !ok {
			return nil, errors.New("the result is no valid JSON")
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

// decodePart decodes what cannot be divided further. text belongs to it.
func decodePart[T any](ctx context.Context, text []byte) (*T, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, err := jsonbound.Check(ctx, text, jsonbound.Limits{Elements: partElements}); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, &partError{err}
	}
	v := new(T)
	if len(text) <= partInline {
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

// partError is about one part of a result, which no limit of the server's lets in.
type partError struct{ error }

// decodeValues decodes the members that can be of any shape.
func (m *splitMembers) decodeValues(ctx context.Context, result any) error {
	var meta mcp.Meta
	if m.meta != nil {
		value, err := jsonscan.DecodeContext(ctx, m.meta)
		if err != nil {
			return err
		}
		object, ok := value.(map[string]any)
		if !ok && value != nil {
			return errors.New("its _meta is no object")
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

// undecoded is the error of a large result that was not decoded to its end.
func undecoded(ctx context.Context, err error) *mcpvisor.Error {
	var beyond *jsonbound.Error
	var part *partError
	switch {
	case ctx.Err() != nil:
		e := &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeAnswered, Cause: context.Cause(ctx), Hint: "it was answered; decoding the result took too long"}
		if errors.Is(context.Cause(ctx), mcpvisor.ErrTimeout) {
			e.Kind, e.Cause = mcpvisor.KindTimeout, nil
		}
		return e
	case errors.As(err, &part):
		return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("the server's result is too large to decode: one part of it holds %w", part.error)}
	case errors.As(err, &beyond):
		limit := "Limits.Elements"
		if beyond.Kind == jsonbound.KindBytes {
			limit = "Limits.Decoded"
		}
		return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
			Cause: fmt.Errorf("the server's result is too large to decode: it holds %w", err), Hint: "raise " + limit + " if such results are expected"}
	}
	return unreadable(err)
}
