// Package textresult decodes the results of tool calls whose content is plain text, which
// are most, in one pass over their JSON. [Decode] returns what the go-sdk would return,
// with a fraction of the allocations, and nil for any other result.
package textresult

import (
	"context"
	"math"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Result is the result of a tool call whose content is plain text, as found in its
// JSON. Its byte slices are parts of that JSON.
type Result struct {
	maxBlocks  int    // how many blocks the content may have
	seen       int    // the members that were found, as bits
	blocks     int    // how many the content has
	first      span   // the first of them: most results have one, and take no slice
	others     []span // the blocks after the first
	isError    bool
	structured []byte // nil if the result has none
	meta       []byte // nil if the result has none
}

// span is the string of one block of text, with its quotes.
type span struct {
	quoted  []byte
	escaped bool
}

// The members that Parse has seen; each may occur once.
const (
	hasContent = 1 << iota
	hasIsError
	hasStructured
	hasMeta
	hasResultType
)

// completeResult is a result with "resultType": "complete" (2026-07-28), which is an
// unexported field of the go-sdk.
var completeResult = func() (r mcp.CallToolResult) {
	if err := r.UnmarshalJSON([]byte(`{"content":[],"resultType":"complete"}`)); err != nil {
		panic(err)
	}
	r.Content = nil
	return r
}()

// Decode decodes a result, which is known to be valid JSON, whose content is plain text.
// It returns nil if it meets anything else, and when ctx ends. The result may share the
// memory of raw.
func Decode(ctx context.Context, raw []byte) *mcp.CallToolResult {
	t, ok := Parse(ctx, raw, math.MaxInt)
	if !ok {
		return nil
	}
	return t.Build(ctx, raw)
}

// Parse finds the parts of a result, which is known to be valid JSON, whose content is
// plain text. ok is false if it meets anything else or more than maxBlocks blocks of
// text, and when ctx ends.
func Parse(ctx context.Context, raw []byte, maxBlocks int) (t Result, ok bool) {
	t.maxBlocks = maxBlocks
	s := jsonscan.Scanner{Text: raw}
	s.SkipSpace()
	if !s.Consume('{') {
		return t, false
	}
	for more := true; more; more = s.Consume(',') {
		s.SkipSpace()
		key, escaped, ok := s.MemberName()
		if !ok || escaped {
			return t, false
		}
		if !t.parseMember(ctx, &s, key) {
			return t, false
		}
		s.SkipSpace()
	}
	return t, s.Consume('}') && s.AtEnd() && t.seen&hasContent != 0
}

// parseMember reads the value of one member. key has its quotes.
func (t *Result) parseMember(ctx context.Context, s *jsonscan.Scanner, key []byte) bool {
	bit := 0
	switch string(key) {
	case `"content"`:
		return t.addOnce(hasContent) && t.parseContent(ctx, s)
	case `"isError"`:
		bit = hasIsError
	case `"structuredContent"`:
		bit = hasStructured
	case `"_meta"`:
		bit = hasMeta
	case `"resultType"`:
		bit = hasResultType
	case `"inputRequests"`, `"requestState"`:
		return false
	}
	v, ok := s.Value()
	if !ok || bit != 0 && !t.addOnce(bit) {
		return false
	}
	switch bit {
	case hasIsError:
		t.isError = v[0] == 't'
		return v[0] == 't' || v[0] == 'f'
	case hasStructured:
		t.structured = v
	case hasMeta:
		t.meta = v
	case hasResultType:
		return string(v) == `"complete"`
	}
	return true
}

// addOnce notes that a member was seen, and reports whether it is the first time.
func (t *Result) addOnce(bit int) bool {
	first := t.seen&bit == 0
	t.seen |= bit
	return first
}

// blocksPerCheck is after how many blocks of text the context is checked.
const blocksPerCheck = 4096

// parseContent reads a list of plain text blocks.
func (t *Result) parseContent(ctx context.Context, s *jsonscan.Scanner) bool {
	if !s.Consume('[') {
		return false
	}
	s.SkipSpace()
	if s.Consume(']') {
		return true
	}
	for {
		s.SkipSpace()
		block, ok := parseBlock(s)
		if !ok {
			return false
		}
		switch t.blocks++; {
		case t.blocks == 1:
			t.first = block
		case t.blocks > t.maxBlocks:
			return false
		default:
			t.others = append(t.others, block)
		}
		if t.blocks%blocksPerCheck == 0 && ctx.Err() != nil {
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

// parseBlock reads {"type":"text","text":"…"}, with the members in either order.
func parseBlock(s *jsonscan.Scanner) (block span, ok bool) {
	if !s.Consume('{') {
		return block, false
	}
	typed := false
	for more := true; more; more = s.Consume(',') {
		s.SkipSpace()
		key, escaped, ok := s.MemberName()
		if !ok || escaped {
			return block, false
		}
		switch {
		case string(key) == `"type"` && !typed:
			kind, _, _ := s.String()
			if typed = string(kind) == `"text"`; !typed {
				return block, false
			}
		case string(key) == `"text"` && block.quoted == nil:
			if block.quoted, block.escaped, ok = s.KnownString(); !ok {
				return block, false
			}
		default:
			return block, false
		}
		s.SkipSpace()
	}
	return block, s.Consume('}') && typed && block.quoted != nil
}

// These bound what [Result.MaxSize] estimates; jsonbound measures anything larger.
const (
	// MaxEstimatedBlocks is how many blocks of text it estimates.
	MaxEstimatedBlocks = 1000
	maxEstimatedBytes  = 4 << 10 // of metadata and structured content, as JSON
)

// MaxSize returns an upper bound of what jsonbound.Check would count. ok is false if the
// result has to be measured. raw is the result as JSON.
func (t *Result) MaxSize(raw []byte) (size jsonbound.Size, ok bool) {
	if t.blocks > MaxEstimatedBlocks || len(t.structured)+len(t.meta) > maxEstimatedBytes {
		return size, false
	}
	const (
		membersPerBlock = 3   // the block, its type and its text
		costPerBlock    = 512 // a map with two members and two strings, as jsonbound counts
		costPerByte     = 100 // of metadata: {"a":0} takes 400 bytes as a map
	)
	nested := len(t.structured) + len(t.meta)
	size.Elements = MaxEstimatedBlocks + membersPerBlock*t.blocks + nested
	size.Bytes = len(raw) + costPerBlock*(t.blocks+2) + costPerByte*nested
	return size, true
}

// Build returns the decoded result. It is nil when ctx ends, and if metadata or
// structured content cannot be decoded. raw is the result as JSON.
func (t *Result) Build(ctx context.Context, raw []byte) *mcp.CallToolResult {
	var r *mcp.CallToolResult
	if t.blocks == 1 { // the usual result takes one allocation, and one for its text
		one := new(struct {
			result  mcp.CallToolResult
			content [1]mcp.Content
			text    mcp.TextContent
		})
		one.text.Text = t.first.text(raw)
		one.content[0] = &one.text
		r = &one.result
		r.Content = one.content[:]
	} else {
		r = &mcp.CallToolResult{Content: make([]mcp.Content, 0, t.blocks)}
		if t.blocks > 0 {
			r.Content = append(r.Content, &mcp.TextContent{Text: t.first.text(raw)})
		}
		for _, block := range t.others {
			r.Content = append(r.Content, &mcp.TextContent{Text: block.text(raw)})
		}
	}
	if t.seen&hasResultType != 0 {
		content := r.Content
		*r = completeResult
		r.Content = content
	}
	r.IsError = t.isError
	if t.structured != nil && !decodeAny(ctx, t.structured, &r.StructuredContent) || t.meta != nil && !decodeMeta(ctx, t.meta, &r.Meta) {
		return nil
	}
	return r
}

// maxShared is the length up to which a result is kept in memory for one of its texts.
const maxShared = 1 << 10

// text returns the decoded text of a block. It shares the memory of raw, unless a small
// text would keep a large result alive.
func (b span) text(raw []byte) string {
	if len(raw) <= maxShared || len(b.quoted) > len(raw)/2 {
		return jsonscan.UnquoteShared(b.quoted, b.escaped)
	}
	return jsonscan.Unquote(b.quoted, b.escaped)
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
