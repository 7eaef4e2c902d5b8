package stdio

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// TestOpen_failure_names_stderr_and_redacts: the cause of a failed start quotes the
// stderr of a process that still runs, and hides secrets.
func TestOpen_failure_names_stderr_and_redacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newServerDialer(t, mcpvisor.EraAuto, func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, stderr io.Writer) error {
			_, _ = io.WriteString(stderr, "waiting for the database\n")
			<-ctx.Done()
			return ctx.Err()
		})
		_, cause := openOnce(t, d)
		require.NotNil(t, cause)
		require.Equal(t, supervisor.CauseTimeout, cause.Kind)
		require.Equal(t, []string{"waiting for the database"}, cause.Stderr)
	})
	d, _ := newServerDialer(t, mcpvisor.EraLegacy, eraServer("", `"error":{"code":-1,"message":"bad key hunter22"}`, 0))
	d.redactor = strings.NewReplacer(transporttest.Secret, "***").Replace
	_, cause := openOnce(t, d)
	require.NotNil(t, cause)
	require.Contains(t, cause.Error(), "bad key ***")
	for err := error(cause); err != nil; {
		require.NotContains(t, err.Error(), transporttest.Secret)
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = u.Unwrap()
	}
}
