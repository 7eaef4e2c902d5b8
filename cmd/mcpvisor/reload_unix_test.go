//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// A pipe in the place of the configuration is a problem like a broken file: it is said once, the servers stay,
// a later file is read, and an interrupt ends the program.
func TestRun_configuration_becomes_a_pipe(t *testing.T) {
	b := startRun(t, map[string]any{"one": entry(mcptest.Script{})}, "run")
	b.await(" ready  ")
	becomesPipe := func() {
		require.NoError(t, syscall.Mkfifo(b.config+".pipe", 0o600))
		require.NoError(t, os.Rename(b.config+".pipe", b.config))
		client, _, err := attach.Find(t.Context(), b.config)
		require.NoError(t, err)
		defer client.Close()
		require.Eventually(t, func() bool {
			info, err := client.Info(t.Context())
			require.NoError(t, err)
			return strings.Contains(info.Problem, "it is not a regular file") && len(info.Servers) > 0
		}, time.Minute, 10*time.Millisecond)
	}
	becomesPipe()
	b.write(map[string]any{"one": entry(mcptest.Script{}), "two": entry(mcptest.Script{})})
	b.await("  two ")
	becomesPipe()
	b.stop()
	require.Zero(t, b.code, b.errs.String())
	require.Contains(t, b.errs.String(), b.config+": it is not a regular file; the servers stay as they are")
}
