package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

func TestDescribeChange_ready(t *testing.T) {
	ev := mcpvisor.Event{Kind: mcpvisor.EventReady, Server: "fs", Tools: 4, PID: 77, StartTook: 1234 * time.Millisecond}
	word, text := describeChange(ev)
	require.Equal(t, "ready", word)
	require.Equal(t, "4 tools, pid 77, started in 1.2s", text)
	ev.Downtime = 2 * time.Second
	ev.Change = &mcpvisor.Change{Tools: mcpvisor.Delta{Added: []string{"fs/a", "fs/b", "fs/c", "fs/d"}, Changed: []string{"fs/read"}}, Prompts: mcpvisor.Delta{Removed: []string{"fs/sum"}}}
	_, text = describeChange(ev)
	require.Equal(t, "4 tools, pid 77, started in 1.2s, was down for 2.0s, LISTS CHANGED since it was last ready: tools +4 −0 ~1, prompts +0 −1 ~0 "+
		"(added fs/a fs/b fs/c …; removed fs/sum; changed fs/read)", text)
	ev = mcpvisor.Event{Kind: mcpvisor.EventReady, Change: &mcpvisor.Change{Instructions: true}}
	_, text = describeChange(ev)
	require.Equal(t, "0 tools, LISTS CHANGED since it was last ready: instructions", text)
}
