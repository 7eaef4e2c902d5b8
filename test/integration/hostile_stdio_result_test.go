//go:build linux

package integration

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/test/hostile"
)

// anyOutcome is a row whose call may succeed or fail with ErrProtocol.
var anyOutcome = stdioRow{end: ending{oneOf: protocolError.oneOf, orSuccess: true}, anyResult: true}

// withSmallMessages sets a small message limit for a row.
func withSmallMessages(r stdioRow) stdioRow {
	r.spec = smallMessages
	return r
}

// viaReadResource and viaGetPrompt replace the call of the tool by another request.
func viaReadResource(r stdioRow) stdioRow {
	r.anyResult, r.act = true, func(v *stdioRun) (*mcp.CallToolResult, error) {
		res, err := v.c.ReadResource(v.within(), hostileServer, hostile.ResourceURI, v.callOptions()...)
		if err == nil {
			for _, c := range res.Contents {
				require.NotNil(v.t, c)
			}
		}
		return nil, err
	}
	return r
}

func viaGetPrompt(r stdioRow) stdioRow {
	r.anyResult, r.act = true, func(v *stdioRun) (*mcp.CallToolResult, error) {
		res, err := v.c.GetPrompt(v.within(), hostileServer+"/"+hostile.PromptName, nil, v.callOptions()...)
		if err == nil {
			for _, m := range res.Messages {
				require.NotNil(v.t, m)
				require.NotNil(v.t, m.Content)
			}
		}
		return nil, err
	}
	return r
}

// tooManyValues is a row whose result holds too many JSON values to be decoded.
// CallTool fails; CallToolRaw returns the result as it is.
var tooManyValues = checked(undecodable, func(v *stdioRun) {
	require.Contains(v.t, v.failure.Error(), "too large to decode")
	raw, err := v.c.CallToolRaw(v.within(), hostileServer+"/"+hostile.BadTool, nil)
	require.NoError(v.t, err)
	require.True(v.t, json.Valid(raw))
})

// requireTooLarge requires that the error says that the result is too large to decode.
func requireTooLarge(v *stdioRun) {
	require.Contains(v.t, v.failure.Error(), "too large to decode")
}

// requireText requires that texts of a result are valid UTF-8, even if the server's
// were not.
func requireText(v *stdioRun) {
	res, err := v.callBadTool(nil)
	require.NoError(v.t, err)
	for _, c := range res.Content {
		require.True(v.t, utf8.ValidString(c.(*mcp.TextContent).Text))
	}
}

var stdioResultRows = map[string]stdioRow{
	"result/null":               inBothEras(undecodable),
	"result/number":             undecodable,
	"result/text":               undecodable,
	"result/array":              undecodable,
	"result/empty":              inBothEras(anyOutcome),
	"result/content-null":       anyOutcome,
	"result/content-text":       undecodable,
	"result/content-object":     undecodable,
	"result/null-entries":       inBothEras(undecodable),
	"result/untyped-entry":      undecodable,
	"result/unknown-type":       undecodable,
	"result/text-number":        undecodable,
	"result/image-garbage":      undecodable,
	"result/resource-null":      undecodable,
	"result/is-error-text":      undecodable,
	"result/structured-array":   tolerated,
	"result/number-huge":        anyOutcome,
	"result/number-long":        anyOutcome,
	"result/meta-array":         anyOutcome,
	"result/input-required":     inBothEras(stdioRow{end: ending{oneOf: []error{mcpvisor.ErrProtocol, mcpvisor.ErrInputRequired}, orSuccess: true}, anyResult: true}),
	"result/unknown-kind":       inBothEras(anyOutcome),
	"result/task":               checked(inBothEras(stdioRow{end: failsWith(mcpvisor.ErrProtocol, mcpvisor.OutcomeUnknown)}), errorContains("began a task")),
	"result/deep":               inBothEras(undecodable),
	"result/deep-enough":        harmless,
	"result/ten-megabytes":      harmless,
	"result/many-entries":       harmless,
	"result/broad-content":      inBothEras(tooManyValues),
	"result/broad-images":       tooManyValues,
	"result/broad-structured":   inBothEras(tooManyValues),
	"result/broad-numbers":      tooManyValues,
	"result/broad-meta":         tooManyValues,
	"result/broad-block":        harmless, // 200,000 values are below Limits.MaxElements
	"result/oversize":           inBothEras(withSmallMessages(checked(undecodable, requireOversize))),
	"result/oversize-id-last":   withSmallMessages(checked(undecodable, requireOversize)),
	"result/oversize-id-hidden": withSmallMessages(checked(unansweredCall, requireOversize)),
	"result/oversize-forged":    withSmallMessages(checked(harmless, requireOversize)),
	"result/invalid-utf-8":      checked(harmless, requireText),
	"result/surrogates":         checked(harmless, requireText),
	"result/nul-escaped":        checked(harmless, requireText),
	"result/nul":                undecodable,
	"result/control":            undecodable,
	"result/keys-twice":         anyOutcome,
	"result/keys-escaped":       harmless,
	"result/keys-case":          anyOutcome,

	"read/null":            viaReadResource(undecodable),
	"read/contents-null":   viaReadResource(anyOutcome),
	"read/null-entries":    inBothEras(viaReadResource(undecodable)),
	"read/contents-object": viaReadResource(undecodable),
	"read/no-uri":          viaReadResource(anyOutcome),
	"read/blob-garbage":    viaReadResource(undecodable),
	"read/broad":           viaReadResource(checked(undecodable, requireTooLarge)),
	"prompt/broad":         viaGetPrompt(checked(undecodable, requireTooLarge)),
	"read/exit":            viaReadResource(crashed),
	"prompt/null":          viaGetPrompt(undecodable),
	"prompt/messages-null": viaGetPrompt(anyOutcome),
	"prompt/null-entries":  inBothEras(viaGetPrompt(undecodable)),
	"prompt/no-content":    viaGetPrompt(undecodable),
	"prompt/hang":          viaGetPrompt(unansweredCall),
}
