package decisive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

func TestLead_begins_with_the_line(t *testing.T) {
	one := 1
	exit := func(message string, stderr ...string) *supervisor.Cause {
		return &supervisor.Cause{Kind: supervisor.CauseExit, ExitCode: &one, Message: message, Stderr: stderr}
	}
	const ended = "server process ended with exit status 1"
	for name, c := range map[string]struct {
		cause    *supervisor.Cause
		starting bool
		want     string
	}{
		"an exit":                          {exit(ended, "Error: no key"), true, "Error: no key (exit status 1)"},
		"an exit, and stdout":              {exit(`the server wrote to its stdout what is not JSON-RPC: "hello" (x); `+ended, "Error: no key"), true, `Error: no key (exit status 1); the server wrote to its stdout what is not JSON-RPC: "hello" (x)`},
		"an exit at the start, plain":      {exit(ended, "goodbye"), true, "goodbye (exit status 1)"},
		"an exit, plain":                   {exit(ended, "goodbye"), false, ended},
		"an exit, a complaint":             {exit(ended, "out of memory"), false, "out of memory (exit status 1)"},
		"progress":                         {exit(ended, "Server running on stdio"), true, ended},
		"no line":                          {exit(ended), true, ended},
		"killed by another program":        {&supervisor.Cause{Kind: supervisor.CauseSignal, Signal: "killed", Message: "server process was ended by signal: killed", Stderr: []string{"Error: x"}}, false, "server process was ended by signal: killed"},
		"aborted":                          {&supervisor.Cause{Kind: supervisor.CauseSignal, Signal: "aborted", Message: "server process was ended by signal: aborted", Stderr: []string{"FATAL ERROR: heap"}}, false, "FATAL ERROR: heap (signal: aborted)"},
		"a timeout":                        {&supervisor.Cause{Kind: supervisor.CauseTimeout, Message: "too late; raise it", Stderr: []string{"Error: connect ECONNREFUSED"}}, true, "Error: connect ECONNREFUSED; too late; raise it"},
		"a timeout, plain":                 {&supervisor.Cause{Kind: supervisor.CauseTimeout, Message: "too late", Stderr: []string{"Please wait"}}, true, "too late"},
		"a permanent cause":                {&supervisor.Cause{Kind: supervisor.CauseVersion, Permanent: true, Message: "no version in common", Stderr: []string{"Error: x"}}, true, "no version in common"},
		"a probe":                          {&supervisor.Cause{Kind: supervisor.CauseProbe, Message: "deaf", Stderr: []string{"Error: x"}}, false, "deaf"},
		"a text that has the line already": {exit(ended+": Error: x", "Error: x"), true, ended + ": Error: x"},
		"a request of the host":            {&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "unregistered", Stderr: []string{"Error: x"}}, false, "unregistered"},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.cause.Message
			require.Equal(t, c.want, Lead(c.cause, c.starting).Message)
			require.Equal(t, before, c.cause.Message, "the given cause is not changed")
		})
	}
	require.Nil(t, Lead(nil, true))
}
