package supervisor_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestCauseCloneSharesNothing(t *testing.T) {
	require.Nil(t, (*supervisor.Cause)(nil).Clone())
	code := 3
	c := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", ExitCode: &code, Stderr: []string{"boom"}}
	d := c.Clone()
	require.Equal(t, c, d)
	*d.ExitCode, d.Stderr[0] = 4, "changed"
	require.Equal(t, 3, *c.ExitCode)
	require.Equal(t, "boom", c.Stderr[0])
}

func TestCauseMessage(t *testing.T) {
	var none *supervisor.Cause
	for _, c := range []struct {
		cause              *supervisor.Cause
		message, described string
	}{
		{none, "unknown cause", "unknown cause"},
		{&supervisor.Cause{Kind: supervisor.CauseProbe}, "probe", "probe"},
		{&supervisor.Cause{Kind: supervisor.CauseSpawn, Err: fs.ErrNotExist}, "file does not exist", "file does not exist"},
		{&supervisor.Cause{Kind: supervisor.CauseSpawn, Message: "no such command", Err: fs.ErrNotExist}, "no such command", "no such command"},
		{
			&supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", Stderr: []string{"loading", "boom"}},
			"exit status 3", "exit status 3; stderr: loading | boom",
		},
	} {
		require.Equal(t, c.message, c.cause.Error())
		require.Equal(t, c.described, c.cause.Describe())
	}
	require.NoError(t, none.Unwrap())
}

func TestCauseIsAnErrorThatUnwraps(t *testing.T) {
	var err error = &supervisor.Cause{Kind: supervisor.CauseConfig, Message: "command not found", Err: fs.ErrNotExist}
	require.ErrorIs(t, err, fs.ErrNotExist)
	var cause *supervisor.Cause
	require.True(t, errors.As(err, &cause))
	require.Equal(t, supervisor.CauseConfig, cause.Kind)
}

func TestCauseInJSONKeepsExitCodeZero(t *testing.T) {
	zero := 0
	b, err := json.Marshal(&supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 0", ExitCode: &zero, Err: fs.ErrClosed})
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"exit","message":"exit status 0","exitCode":0}`, string(b))
}
