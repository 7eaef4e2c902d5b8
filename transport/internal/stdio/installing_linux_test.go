package stdio

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestOpenFailure_installing: a package runner that has not started the server when the time is over is
// still installing. One whose server runs has a server that is mute, and so has another program.
func TestOpenFailure_installing(t *testing.T) {
	const installs, serves = "#!/bin/sh\nread first\nread forever\nread more\n", "#!/bin/sh\nsleep 600 &\nwait\n"
	const installing = "npx has not started the server in time: it is still installing; raise Timeouts.Start if that is slow"
	for name, c := range map[string]struct {
		program, text, want string
	}{
		"installs":        {"npx", installs, installing},
		"serves":          {"npx", serves, "server did not finish the handshake in time; raise Timeouts.Start if it is slow to start"},
		"another program": {"server", installs, "server did not finish the handshake in time; raise Timeouts.Start if it is slow to start"},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), c.program)
			require.NoError(t, os.WriteFile(program, []byte(c.text), 0o700))
			spec := mcpvisor.ServerSpec{Name: "m", Era: mcpvisor.EraLegacy, Stdio: &mcpvisor.Stdio{Command: program, Args: []string{"-y", "some-server"}}}
			d := NewDialer(spec.WithDefaults(), transport.Options{ClientInfo: transporttest.ClientInfo, Logger: zerolog.Nop()})
			s := d.NewSession()
			transporttest.ReleaseAtEnd(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var cause *supervisor.Cause
			require.ErrorAs(t, s.Open(ctx), &cause)
			require.Equal(t, supervisor.CauseTimeout, cause.Kind)
			require.Equal(t, c.want, cause.Message)
		})
	}
}
