package servers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
)

func TestProgressLine(t *testing.T) {
	var out strings.Builder
	p := &ProgressLine{out: &out, width: 30}
	p.Clear()
	require.Empty(t, out.String())
	p.Show(mcpvisor.Progress{Progress: 1, Total: 4, Message: "one\x1b[2J\nfile"})
	p.Show(mcpvisor.Progress{Progress: 7, Message: strings.Repeat("x", 50)})
	p.Clear()
	require.Equal(t, "\r\x1b[K25% 1 of 4 one[2J file\r\x1b[K7 "+strings.Repeat("x", 26)+"…\r\x1b[K", out.String())
	(*ProgressLine)(nil).Clear()
	out.Reset()
	p.pause(true)
	p.Show(mcpvisor.Progress{Progress: 8})
	require.Empty(t, out.String(), "a form is shown")
	p.pause(false)
	p.Show(mcpvisor.Progress{Progress: 9})
	require.NotEmpty(t, out.String())
	require.Nil(t, (&Opener{Invocation: cli.Invocation{Err: &out}}).progressLine(), "not a terminal")
}
