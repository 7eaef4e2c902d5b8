package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A followed stderr continues with the next process, and ends with an interrupt or with the
// end of the run.
func TestLogs_follow(t *testing.T) {
	server := entry(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionStderrLine, Text: "listening"}}})
	b := startRun(t, map[string]any{"one": server}, "run")
	b.await(" ready  ")
	for _, ends := range []string{"interrupt", "end of the run"} {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		r, w := io.Pipe()
		var errs strings.Builder
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, []string{"-c", b.config, "logs", "-f", "one"}, strings.NewReader(""), w, &errs)
			_ = w.Close()
		}()
		lines := bufio.NewScanner(r)
		require.True(t, lines.Scan())
		require.Equal(t, "listening", lines.Text())
		code, _, failed := b.command("restart", "one")
		require.Equal(t, cli.ExitOK, code, failed)
		require.True(t, lines.Scan())
		require.Equal(t, "listening", lines.Text(), "the next process")
		if ends == "interrupt" {
			interrupt()
		} else {
			b.stop()
		}
		require.False(t, lines.Scan())
		require.Equal(t, cli.ExitOK, <-ended, errs.String())
		require.Regexp(t, `(?m)^--- start \d, pid \d+ ---$`, errs.String())
	}
}
