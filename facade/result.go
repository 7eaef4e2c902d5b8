package facade

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/textresult"
)

// decodeToolResult decodes the result of a tool call. Most results are plain text, which
// [textresult.Decode] reads in one pass; the go-sdk decodes all others.
func decodeToolResult(ctx context.Context, got *response) (*mcp.CallToolResult, error) {
	if got.isLarge() {
		r, err := decodeLarge(ctx, got, "content", func(whole, part *mcp.CallToolResult) {
			whole.Content = append(whole.Content, part.Content...)
		})
		return r, withRawHint(err)
	}
	r, err := decodeWholeToolResult(ctx, got.raw)
	return r, withRawHint(err)
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
