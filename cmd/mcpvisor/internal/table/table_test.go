package table_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/table"
)

func TestOneLine(t *testing.T) {
	require.Equal(t, "one two…", table.OneLine("one\n two\x1b three", 9))
	require.Equal(t, "ab", table.OneLine("a\u202eb", 9))
}

func TestWrite(t *testing.T) {
	header := []string{"NAME", "STATE", "TOOLS"}
	rows := [][]any{{"one", table.Cell{Value: "ready", Color: table.Good}, 3}, {"größer", table.Cell{Value: "ev\x1b[icted"}, 12}}
	var out strings.Builder
	require.NoError(t, table.Write(&out, false, header, rows))
	require.Equal(t, "NAME    STATE     TOOLS\none     ready     3\ngrößer  ev[icted  12\n", out.String())
	plain := out.String()
	out.Reset()
	require.NoError(t, table.Write(&out, true, header, rows))
	require.Contains(t, out.String(), "\x1b[32mready\x1b[0m   ")
	require.Equal(t, plain, strings.NewReplacer("\x1b[32m", "", "\x1b[0m", "").Replace(out.String()), "colours change no column")
}

func TestColored(t *testing.T) {
	require.False(t, table.Colored(new(strings.Builder)))
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	require.False(t, table.Colored(file), "not a terminal")
}
