package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/facade"
)

func TestVersionOf(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "7bcaa15f00d7bcaa15f00d"}, {Key: "vcs.time", Value: "2026-11-22T13:00:00Z"}, {Key: "vcs.modified", Value: "true"}}}
	v := facade.Version()
	require.Equal(t, "mcpvisor "+v+" (revision 7bcaa15f00d7 of 2026-11-22T13:00:00Z, modified) go1.26.0", versionOf(info).String())
	require.Equal(t, "7bcaa15f00d7bcaa15f00d", versionOf(info).Revision)
	info.Settings, info.Main.Version = nil, "(devel)"
	require.Equal(t, "mcpvisor "+v+" go1.26.0", versionOf(info).String())
	info.Main.Version = "v0.4.1"
	require.Equal(t, "mcpvisor v0.4.1 go1.26.0", versionOf(info).String())
}
