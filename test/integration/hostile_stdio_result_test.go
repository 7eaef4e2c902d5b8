//go:build linux

package integration

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest/hostile"
)

// whatever is a result that may be taken or refused, and what is taken can be
// gone through.
var whatever = stdioRow{end: ending{is: broken.is, orNone: true}, any: true}

// narrowed is a row with a limit for lines that is soon reached.
func narrowed(r stdioRow) stdioRow {
	r.spec = narrow
	return r
}

// reading and prompting do something else than call the tool.
func reading(r stdioRow) stdioRow {
	r.any, r.act = true, func(v *stdioRun) (*mcp.CallToolResult, error) {
		res, err := v.c.ReadResource(v.within(), hostileServer, hostile.ResourceURI, v.opts()...)
		if err == nil {
			for _, c := range res.Contents {
				require.NotNil(v.t, c)
			}
		}
		return nil, err
	}
	return r
}

func prompting(r stdioRow) stdioRow {
	r.any, r.act = true, func(v *stdioRun) (*mcp.CallToolResult, error) {
		res, err := v.c.GetPrompt(v.within(), hostileServer, hostile.PromptName, nil, v.opts()...)
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

// tooBroad is a row in which the result holds too much to be decoded: that costs
// the typed call, and CallRaw returns it as it is.
var tooBroad = checked(unread, func(v *stdioRun) {
	require.Contains(v.t, v.failure.Error(), "too large to decode")
	raw, err := v.c.CallToolRaw(v.within(), hostileServer+"/"+hostile.BadTool, nil)
	require.NoError(v.t, err)
	require.True(v.t, json.Valid(raw))
})

// requireTooLarge: the error says that there was too much to decode.
func requireTooLarge(v *stdioRun) {
	require.Contains(v.t, v.failure.Error(), "too large to decode")
}

// requireText: what is not Unicode has become something that is.
func requireText(v *stdioRun) {
	res, err := v.bad(nil)
	require.NoError(v.t, err)
	for _, c := range res.Content {
		require.True(v.t, utf8.ValidString(c.(*mcp.TextContent).Text))
	}
}

var stdioResultRows = map[string]stdioRow{
	"result/null":               everywhere(unread),
	"result/number":             unread,
	"result/text":               unread,
	"result/array":              unread,
	"result/empty":              everywhere(whatever),
	"result/content-null":       whatever,
	"result/content-text":       unread,
	"result/content-object":     unread,
	"result/null-entries":       everywhere(unread),
	"result/untyped-entry":      unread,
	"result/unknown-type":       unread,
	"result/text-number":        unread,
	"result/image-garbage":      unread,
	"result/resource-null":      unread,
	"result/is-error-text":      unread,
	"result/structured-array":   tolerated,
	"result/number-huge":        whatever,
	"result/number-long":        whatever,
	"result/meta-array":         whatever,
	"result/input-required":     everywhere(stdioRow{end: ending{is: []error{mcpvisor.ErrProtocol, mcpvisor.ErrInputRequired}, orNone: true}, any: true}),
	"result/unknown-kind":       everywhere(whatever),
	"result/deep":               everywhere(unread),
	"result/deep-enough":        harmless,
	"result/ten-megabytes":      harmless,
	"result/many-entries":       harmless,
	"result/broad-content":      everywhere(tooBroad),
	"result/broad-images":       tooBroad,
	"result/broad-structured":   everywhere(tooBroad),
	"result/broad-numbers":      tooBroad,
	"result/broad-meta":         tooBroad,
	"result/broad-block":        tooBroad,
	"result/oversize":           everywhere(narrowed(checked(unread, requireOversize))),
	"result/oversize-id-last":   narrowed(checked(unread, requireOversize)),
	"result/oversize-id-hidden": narrowed(checked(silent, requireOversize)),
	"result/oversize-forged":    narrowed(checked(harmless, requireOversize)),
	"result/invalid-utf-8":      checked(harmless, requireText),
	"result/surrogates":         checked(harmless, requireText),
	"result/nul-escaped":        checked(harmless, requireText),
	"result/nul":                unread,
	"result/control":            unread,
	"result/keys-twice":         whatever,
	"result/keys-escaped":       harmless,
	"result/keys-case":          whatever,

	"read/null":            reading(unread),
	"read/contents-null":   reading(whatever),
	"read/null-entries":    everywhere(reading(unread)),
	"read/contents-object": reading(unread),
	"read/no-uri":          reading(whatever),
	"read/blob-garbage":    reading(unread),
	"read/broad":           reading(checked(unread, requireTooLarge)),
	"prompt/broad":         prompting(checked(unread, requireTooLarge)),
	"read/exit":            reading(crashed),
	"prompt/null":          prompting(unread),
	"prompt/messages-null": prompting(whatever),
	"prompt/null-entries":  everywhere(prompting(unread)),
	"prompt/no-content":    prompting(unread),
	"prompt/hang":          prompting(silent),
}
