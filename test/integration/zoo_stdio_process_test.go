//go:build linux

package integration

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

// loaded calls the bad tool with an argument that no pipe holds.
func loaded(v *stdioVisit) (*mcp.CallToolResult, error) { return v.bad(large) }

// lastAnswer: whether what the server leaves behind still answers for it is a
// matter of moments.
var lastAnswer = stdioRow{end: ending{is: crashes.is, orNone: true}, any: true, fate: replaced}

// What is left of them when they are unregistered is looked at after every
// row: nothing.
var stdioProcessRows = map[string]stdioRow{
	"process/close-stdout": everywhere(crashed),
	"process/close-stdin":  {spec: probed, fate: replaced},
	"process/close-both":   crashed,
	"process/stderr-flood": tolerated0,
	"process/stderr-line":  tolerated0,
	"process/stderr-escapes": checked(crashed, func(v *stdioVisit) {
		require.NotEmpty(v.t, v.failure.Stderr)
		require.NotContains(v.t, v.failure.Error(), "\n", "what it says is one line")
	}),
	"process/grandchild":                  crashed,
	"process/grandchild-detached":         crashed,
	"process/grandchild-answers":          lastAnswer,
	"process/grandchild-detached-answers": lastAnswer,
	"process/grandchild-stderr":           crashed,
	"process/grandchild-writes":           tolerated0,
	"process/family":                      tolerated0,
	"process/stops":                       {spec: probed, end: fails(facade.ErrCrashed, facade.Unknown), fate: replaced},
	"process/kills-group":                 crashed,
	"process/exec":                        tolerated0,
	"process/descriptors":                 tolerated0,
	"process/nonblocking":                 tolerated0,
	"process/small-pipes":                 {act: loaded},
	"process/full-stdout":                 tolerated0,
	"process/title":                       tolerated0,

	"shutdown/stubborn":        tolerated,
	"shutdown/ignores-eof":     tolerated0,
	"shutdown/slow":            tolerated0,
	"shutdown/status":          tolerated0,
	"shutdown/writes":          tolerated0,
	"shutdown/writes-for-ever": tolerated0,
	"shutdown/asks":            tolerated0,
	"shutdown/own-stdin":       tolerated0,
	"shutdown/own-stdout":      tolerated0,
	"shutdown/joins-our-group": tolerated0,
	"shutdown/phoenix":         tolerated0,
	"shutdown/last-child":      tolerated0,
	"shutdown/segfault":        tolerated0,
}
