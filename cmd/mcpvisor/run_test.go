package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// runUntil runs the program until a line contains mark, then interrupts it. It
// returns all lines and the exit code.
func runUntil(t *testing.T, mark string, args ...string) (lines []string, code int) {
	t.Helper()
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "c.json")
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"good": entry(mcptest.Script{}),
		"bad":  entry(mcptest.Script{Faults: []mcptest.Fault{{At: mcptest.StageStart, Do: mcptest.ActionExit, Code: 7}}}),
	}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, w := io.Pipe()
	done := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		done <- run(ctx, append([]string{"--config", path}, args...), strings.NewReader(""), w, &errs)
		_ = w.Close()
	}()
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		lines = append(lines, scan.Text())
		if strings.Contains(scan.Text(), mark) {
			interrupt()
		}
	}
	code = <-done
	require.Empty(t, errs.String())
	return lines, code
}

func TestRun_prints_events_until_interrupted(t *testing.T) {
	lines, code := runUntil(t, "bad evicted", "run")
	require.Zero(t, code)
	all := strings.Join(lines, "\n")
	for _, want := range []string{"bad did not start: server process ended with exit status 7", "bad retry 1/2 in 10ms",
		"bad retry 2/2 in 20ms", "bad evicted", "good unregistered", "bad unregistered"} {
		require.Contains(t, all, want)
	}
}

func TestRun_prints_one_object_per_line(t *testing.T) {
	lines, code := runUntil(t, `"kind":"ready"`, "--json", "run")
	require.Zero(t, code)
	var last mcpvisor.Event
	for i, text := range lines {
		var ev mcpvisor.Event
		require.NoError(t, json.Unmarshal([]byte(text), &ev), text)
		if i > 0 {
			require.Equal(t, last.Seq+1, ev.Seq)
		}
		last = ev
	}
	require.Equal(t, mcpvisor.EventUnregistered, last.Kind)
}
