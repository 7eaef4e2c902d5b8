package facade

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// decodeToolResult decodes the result of a tool call. Most results are plain text, which
// [decodeTextResult] reads in one pass; the go-sdk decodes all others.
func decodeToolResult(ctx context.Context, got *response) (*mcp.CallToolResult, error) {
	if got.isLarge() {
		r, err := decodeLarge(ctx, got, "content", func(whole, part *mcp.CallToolResult) {
			whole.Content = append(whole.Content, part.Content...)
		})
		return r, withRawHint(err)
	}
	raw := got.raw
	if r := decodeTextResult(ctx, raw); r != nil {
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
		return nil, withRawHint(unreadableResult(err))
	}
	return r, nil
}

// withRawHint adds to the error of a tool's result how to get the result undecoded. It
// returns a copy.
func withRawHint(err error) error {
	e, ok := err.(*mcpvisor.Error)
	if !ok || e == nil || e.Kind != mcpvisor.KindProtocol {
		return err
	}
	hinted := *e
	if hinted.Hint != "" {
		hinted.Hint += "; "
	}
	hinted.Hint += "CallToolRaw returns it undecoded"
	return &hinted
}

// completeResult is a result with "resultType": "complete" (2026-07-28), which is an
// unexported field of the go-sdk.
var completeResult = func() (r mcp.CallToolResult) {
	if err := r.UnmarshalJSON([]byte(`{"content":[],"resultType":"complete"}`)); err != nil {
		panic(err)
	}
	r.Content = nil
	return r
}()

// The members that decodeTextResult has seen; each may occur once.
const (
	hasContent = 1 << iota
	hasIsError
	hasStructured
	hasMeta
	hasResultType
)

// decodeTextResult decodes a result whose content is plain text. It returns nil if it
// meets anything else, and when ctx ends.
func decodeTextResult(ctx context.Context, raw []byte) *mcp.CallToolResult {
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
			if !once(hasContent) || !readTextContent(ctx, &s, r) {
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
		typed := completeResult
		typed.Meta, typed.Content, typed.StructuredContent, typed.IsError = r.Meta, r.Content, r.StructuredContent, r.IsError
		*r = typed
	}
	return r
}

// blocksPerCheck is after how many blocks of text the context is checked.
const blocksPerCheck = 4096

// readTextContent reads a list of plain text blocks into r.
func readTextContent(ctx context.Context, s *jsonscan.Scanner, r *mcp.CallToolResult) bool {
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
		block, ok := readTextBlock(s)
		if !ok {
			return false
		}
		r.Content = append(r.Content, block)
		if len(r.Content)%blocksPerCheck == 0 && ctx.Err() != nil {
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

// readTextBlock reads {"type":"text","text":"…"}, with the members in either order.
func readTextBlock(s *jsonscan.Scanner) (*mcp.TextContent, bool) {
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
