package servers

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/config"
)

func TestPrompter(t *testing.T) {
	var out strings.Builder
	p := &prompter{ctx: context.Background(), in: strings.NewReader("plain\r\n\n3\n2\nnext"), out: &out,
		readPassword: func() ([]byte, error) { return []byte("hidden"), nil }}
	for _, step := range []struct {
		input config.Input
		want  string
	}{
		{config.Input{ID: "a"}, "plain"},
		{config.Input{ID: "b", Default: "eu"}, "eu"},
		{config.Input{ID: "c", Options: []string{"s", "m"}}, "m"},
		{config.Input{ID: "d", Password: true, Default: "canary", Description: "API key\x1b[2J"}, "hidden"},
	} {
		value, err := p.ask(step.input)
		require.NoError(t, err)
		require.Equal(t, step.want, value)
	}
	require.Contains(t, out.String(), "b [eu] (or set MCPVISOR_INPUT_B): ")
	require.Contains(t, out.String(), "Answer with one of: s, m")
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "canary")
	rest, err := io.ReadAll(p.in)
	require.NoError(t, err)
	require.Equal(t, "next", string(rest), "the rest of the input is left to the command")

	_, err = p.ask(config.Input{ID: "e"})
	require.EqualError(t, err, "the terminal was closed")
}

func TestPrompter_interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	in, feed := io.Pipe()
	defer feed.Close()
	p := &prompter{ctx: ctx, in: in, out: io.Discard}
	cancel()
	_, err := p.ask(config.Input{ID: "a"})
	require.ErrorIs(t, err, cli.ErrInterrupted)
	_, err = (&prompter{ctx: ctx, out: forbidden{t}}).ask(config.Input{ID: "b"})
	require.ErrorIs(t, err, cli.ErrInterrupted, "no further question is shown")
}

// forbidden is a writer that fails the test.
type forbidden struct{ t *testing.T }

func (w forbidden) Write(p []byte) (int, error) {
	w.t.Errorf("written: %q", p)
	return len(p), nil
}

// Without a terminal, inputs come from variables and defaults. A server can be named as
// its entry is called.
func TestLoadConfig_inputs_and_names(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"inputs": [{"id": "x", "type": "promptString"}],
		"servers": {"a/b": {"command": "${input:x}"}}}`), 0o600))
	o := &Opener{Invocation: cli.Invocation{Context: context.Background(), In: strings.NewReader(""), Err: io.Discard, Sources: cli.NewSources([]string{path})}}
	file, err := o.LoadConfig()
	require.NoError(t, err)
	require.Empty(t, file.Servers)

	t.Setenv("MCPVISOR_INPUT_X", "program")
	file, err = o.LoadConfig()
	require.NoError(t, err)
	for _, name := range []string{"a-b", "a/b"} {
		specs, err := SelectSpecs(file, []string{name})
		require.NoError(t, err)
		require.Equal(t, "program", specs[0].Stdio.Command)
		require.Equal(t, "a-b", specs[0].Name)
		require.Equal(t, "a-b", o.ServerName(name))
	}
	for name, want := range map[string]string{"a/b": "a/b", "a/b/echo": "a-b/echo", "a/b/c/d": "a-b/c/d", "a-b/echo": "a-b/echo", "x/y/z": "x/y/z", "mcp__a__b": "mcp__a__b"} {
		require.Equal(t, want, o.ToolName(name))
	}
	_, err = SelectSpecs(file, []string{"c"})
	require.ErrorContains(t, err, `has no server "c"; name one of: a-b`)
}

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
