//go:build linux

package integration

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// callWithLargeArgs calls the bad tool with arguments that are larger than the buffer
// of a pipe.
func callWithLargeArgs(v *stdioRun) (*mcp.CallToolResult, error) { return v.callBadTool(largeArgs) }

// answerOrCrash is a row in which a child of the server answers the call, before or
// after the client notices the end of the server.
var answerOrCrash = stdioRow{end: ending{oneOf: crashes.oneOf, orSuccess: true}, anyResult: true, fate: replaced}

// stdioProcessRows are about processes. After every row runStdioRow requires that no
// process is left.
var stdioProcessRows = map[string]stdioRow{
	"process/close-stdout": inBothEras(crashed),
	"process/close-stdin":  {spec: probed, fate: replaced},
	"process/close-both":   crashed,
	"process/stderr-flood": harmless,
	"process/stderr-line":  harmless,
	"process/stderr-escapes": checked(crashed, func(v *stdioRun) {
		require.NotEmpty(v.t, v.failure.Stderr)
		require.NotContains(v.t, v.failure.Error(), "\n", "the error is one line")
	}),
	"process/grandchild":                  crashed,
	"process/grandchild-detached":         crashed,
	"process/grandchild-answers":          answerOrCrash,
	"process/grandchild-detached-answers": answerOrCrash,
	"process/grandchild-stderr":           crashed,
	"process/grandchild-writes":           harmless,
	"process/family":                      harmless,
	"process/stops":                       {spec: probed, end: failsWith(mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown), fate: replaced},
	"process/kills-group":                 crashed,
	"process/exec":                        harmless,
	"process/descriptors":                 harmless,
	"process/nonblocking":                 harmless,
	"process/small-pipes":                 {act: callWithLargeArgs},
	"process/full-stdout":                 harmless,
	"process/title":                       harmless,

	"shutdown/stubborn":        tolerated,
	"shutdown/ignores-eof":     harmless,
	"shutdown/slow":            harmless,
	"shutdown/status":          harmless,
	"shutdown/writes":          harmless,
	"shutdown/writes-for-ever": harmless,
	"shutdown/asks":            harmless,
	"shutdown/own-stdin":       harmless,
	"shutdown/own-stdout":      harmless,
	"shutdown/joins-our-group": harmless,
	"shutdown/phoenix":         harmless,
	"shutdown/last-child":      harmless,
	"shutdown/segfault":        harmless,
}
