package facade

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// decodeToolResult reads the result of a tool call. Most results are text;
// those are read in one pass. Whatever looks different is left to the go-sdk,
// which knows every kind of content.
func decodeToolResult(ctx context.Context, got *reply) (*mcp.CallToolResult, error) {
	if got.isLarge() {
		r, err := decodeLarge(ctx, got, "content", func(whole, part *mcp.CallToolResult) {
			whole.Content = append(whole.Content, part.Content...)
		})
		return r, hintRaw(err)
	}
	raw := got.raw
	if r := textResult(ctx, raw); r != nil {
		return r, nil
	}
	r := new(mcp.CallToolResult)
	err := checkResult(raw)
	if err == nil {
		err = r.UnmarshalJSON(raw)
	}
	if err == nil {
		err = holes(r)
	}
	if err != nil {
		return nil, hintRaw(unreadable(err))
	}
	return r, nil
}

// hintRaw adds to the error of a tool's result how to get at it all the same.
func hintRaw(err error) error {
	if e, ok := err.(*mcpvisor.Error); ok && e != nil && e.Kind == mcpvisor.KindProtocol {
		if e.Hint != "" {
			e.Hint += "; "
		}
		e.Hint += "CallRaw returns it as it is"
	}
	return err
}

// complete is a result with "resultType": "complete" (2026-07-28), which only
// the go-sdk can set.
var complete = func() (r mcp.CallToolResult) {
	if err := r.UnmarshalJSON([]byte(`{"content":[],"resultType":"complete"}`)); err != nil {
		panic(err)
	}
	r.Content = nil
	return r
}()

// The members of a result; each may occur once.
const (
	hasContent = 1 << iota
	hasIsError
	hasStructured
	hasMeta
	hasResultType
)

// textResult reads a result whose content is plain text. It returns nil if it
// is not sure, and when ctx ends.
func textResult(ctx context.Context, raw []byte) *mcp.CallToolResult {
	s := jsonscan.Scanner{Text: raw}
	s.SkipSpace()
	if !s.Consume('{') {
		return nil
	}
	r := new(mcp.CallToolResult)
	seen := 0
	once := func(bit int) bool {
		first := seen&bit == 0
		seen |= bit
		return first
	}
	for more := true; more; more = s.Consume(',') {
		s.SkipSpace()
		key, escaped, ok := s.String()
		if !ok || escaped {
			return nil
		}
		s.SkipSpace()
		if !s.Consume(':') {
			return nil
		}
		s.SkipSpace()
		switch string(key) {
		case `"content"`:
			if !once(hasContent) || !textContent(ctx, &s, r) {
				return nil
			}
		case `"isError"`:
			v, ok := s.Value()
			if !ok || !once(hasIsError) || v[0] != 't' && v[0] != 'f' {
				return nil
			}
			r.IsError = v[0] == 't'
		case `"structuredContent"`:
			v, ok := s.Value()
			if !ok || !once(hasStructured) || !decodeAny(ctx, v, &r.StructuredContent) {
				return nil
			}
		case `"_meta"`:
			v, ok := s.Value()
			if !ok || !once(hasMeta) || !decodeMeta(ctx, v, &r.Meta) {
				return nil
			}
		case `"resultType"`:
			v, ok := s.Value()
			if !ok || !once(hasResultType) || string(v) != `"complete"` {
				return nil
			}
		case `"inputRequests"`, `"requestState"`:
			return nil
		default:
			if _, ok := s.Value(); !ok {
				return nil
			}
		}
		s.SkipSpace()
	}
	if !s.Consume('}') || !s.AtEnd() || seen&hasContent == 0 {
		return nil
	}
	if seen&hasResultType != 0 {
		typed := complete
		typed.Meta, typed.Content, typed.StructuredContent, typed.IsError = r.Meta, r.Content, r.StructuredContent, r.IsError
		*r = typed
	}
	return r
}

// blocksAtOnce is after how many blocks of text the context is looked at.
const blocksAtOnce = 4096

// textContent reads a list of plain text blocks.
func textContent(ctx context.Context, s *jsonscan.Scanner, r *mcp.CallToolResult) bool {
	if !s.Consume('[') {
		return false
	}
	r.Content = make([]mcp.Content, 0, 1)
	s.SkipSpace()
	if s.Consume(']') {
		return true
	}
	for {
		s.SkipSpace()
		block, ok := textBlock(s)
		if !ok {
			return false
		}
		r.Content = append(r.Content, block)
		if len(r.Content)%blocksAtOnce == 0 && ctx.Err() != nil {
			return false
		}
		s.SkipSpace()
		if s.Consume(']') {
			return true
		}
		if !s.Consume(',') {
			return false
		}
	}
}

// textBlock reads {"type":"text","text":"…"}, in either order.
func textBlock(s *jsonscan.Scanner) (*mcp.TextContent, bool) {
	if !s.Consume('{') {
		return nil, false
	}
	var text, kind []byte
	var escapes bool
	for more := true; more; more = s.Consume(',') {
		s.SkipSpace()
		key, escaped, ok := s.String()
		if !ok || escaped {
			return nil, false
		}
		s.SkipSpace()
		if !s.Consume(':') {
			return nil, false
		}
		s.SkipSpace()
		value, escaped, ok := s.String()
		if !ok {
			return nil, false
		}
		switch {
		case string(key) == `"type"` && kind == nil:
			kind = value
		case string(key) == `"text"` && text == nil:
			text, escapes = value, escaped
		default:
			return nil, false
		}
		s.SkipSpace()
	}
	if !s.Consume('}') || string(kind) != `"text"` || text == nil {
		return nil, false
	}
	return &mcp.TextContent{Text: jsonscan.Unquote(text, escapes)}, true
}

// unreadableText bounds what is said of a result that cannot be read, in bytes.
const unreadableText = 1 << 10

// unreadable is the error of a result that is not what it should be.
func unreadable(err error) *mcpvisor.Error {
	if text := err.Error(); len(text) > unreadableText { // it quotes the result
		err = errors.New(strings.ToValidUTF8(text[:unreadableText], "") + " …")
	}
	return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
		Cause: fmt.Errorf("the server's result cannot be read: %w", err)}
}

func decodeAny(ctx context.Context, text []byte, into *any) bool {
	v, err := jsonscan.DecodeContext(ctx, text)
	*into = v
	return err == nil
}

func decodeMeta(ctx context.Context, text []byte, into *mcp.Meta) bool {
	v, err := jsonscan.DecodeContext(ctx, text)
	if v == nil {
		return err == nil
	}
	m, ok := v.(map[string]any)
	*into = m
	return ok
}
