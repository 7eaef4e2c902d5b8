package mcpvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
)

// kinds lists for each kind its sentinel, and whether the same request may be repeated:
// "if not sent" or "never". A canceled request is not repeated, because its context
// stays ended.
var kinds = map[ErrorKind]struct {
	sentinel error
	repeat   string
}{
	ErrUnknownServer: {ErrUnknownServer, "never"},
	ErrUnknownTool:   {ErrUnknownTool, "never"},
	ErrUnavailable:   {ErrUnavailable, "if not sent"},
	ErrCrashed:       {ErrCrashed, "if not sent"},
	ErrEnded:         {ErrEnded, "if not sent"},
	ErrEvicted:       {ErrEvicted, "never"},
	ErrTimeout:       {ErrTimeout, "if not sent"},
	ErrCanceled:      {ErrCanceled, "never"},
	ErrOverloaded:    {ErrOverloaded, "if not sent"},
	ErrClosed:        {ErrClosed, "never"},
	ErrProtocol:      {ErrProtocol, "never"},
	ErrRPC:           {ErrRPC, "never"},
	ErrAuthRequired:  {ErrAuthRequired, "never"},
	ErrInvalid:       {ErrInvalid, "never"},
	ErrInputRequired: {ErrInputRequired, "never"},
	ErrExists:        {ErrExists, "never"},
	ErrLeftBehind:    {ErrLeftBehind, "never"},
	ErrStart:         {ErrStart, "if not sent"},
	ErrInterrupted:   {ErrInterrupted, "never"},
	ErrJournal:       {ErrJournal, "never"},
	ErrDenied:        {ErrDenied, "never"},
}

func TestErrorKinds_lists_every_kind(t *testing.T) {
	var want []ErrorKind
	for kind := range kinds {
		want = append(want, kind)
	}
	require.ElementsMatch(t, want, ErrorKinds())
}

func TestError_Is_matches_only_the_sentinel_of_its_kind(t *testing.T) {
	for kind := range kinds {
		wrapped := fmt.Errorf("outer: %w", &Error{Kind: kind})
		for other, that := range kinds {
			require.Equal(t, kind == other, errors.Is(wrapped, that.sentinel), "%s against %s", kind, other)
		}
	}
	require.NotErrorIs(t, &Error{}, ErrInvalid)
	require.NotErrorIs(t, &Error{Kind: "of another release"}, ErrInvalid)
	require.False(t, (&Error{Kind: "of another release"}).Is(nil))
}

func TestError_Unwrap(t *testing.T) {
	cause := &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 3", Err: io.ErrUnexpectedEOF}
	err := fmt.Errorf("outer: %w", &Error{Kind: ErrCrashed, Cause: cause, Server: "fs", Epoch: 7})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, uint64(7), e.Epoch)
	var c *supervisor.Cause
	require.ErrorAs(t, err, &c)
	require.Same(t, cause, c)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorIs(t, &Error{Kind: ErrCanceled, Cause: context.DeadlineExceeded}, context.DeadlineExceeded)
	require.NoError(t, (&Error{Kind: ErrCanceled}).Unwrap())
}

func TestError_Error(t *testing.T) {
	full := &Error{
		Server: "fs", Gen: 1, Epoch: 2, Op: "call fs/list", Kind: ErrCrashed, Outcome: OutcomeUnknown,
		RetryAfter: 1500 * time.Millisecond, Hint: "look at its log",
		Cause: errors.New("exit status 3"), Stderr: []string{"boom", "bye"},
	}
	require.Equal(t, "call fs/list: server crashed; outcome unknown: exit status 3; retry in 1.5s; look at its log; stderr: boom | bye",
		full.Error())
	for want, e := range map[string]*Error{
		"unknown tool":                            {Kind: ErrUnknownTool},
		"call x/y: timed out; nothing was sent":   {Op: "call x/y", Kind: ErrTimeout, Outcome: OutcomeNotSent},
		"call x/y: server answered with an error": {Op: "call x/y", Kind: ErrRPC, Outcome: OutcomeAnswered},
		"register fs: already registered; unregister it first": {
			Op: "register fs", Kind: ErrExists, Hint: "unregister it first"},
		"of another release": {Kind: "of another release"},
	} {
		require.Equal(t, want, e.Error())
	}
}

// The text is one line. What became of the request stands before what may be long, and stderr last.
func TestError_Error_order(t *testing.T) {
	for kind := range kinds {
		for _, outcome := range []Outcome{OutcomeNone, OutcomeNotSent, OutcomeUnknown, OutcomeAnswered} {
			e := &Error{Op: "call fs/list", Kind: kind, Outcome: outcome, Hint: "do this", RetryAfter: time.Second, Stderr: []string{"x"}}
			require.True(t, strings.HasPrefix(e.Error(), "call fs/list: "+kinds[kind].sentinel.Error()), e.Error())
			require.True(t, strings.HasSuffix(e.Error(), "; do this; stderr: x"), e.Error())
			require.NotContains(t, e.Error(), "\n")
		}
	}
}

func TestError_Retryable(t *testing.T) {
	for kind, is := range kinds {
		for _, outcome := range []Outcome{OutcomeNone, OutcomeNotSent, OutcomeUnknown, OutcomeAnswered} {
			want := is.repeat == "if not sent" && outcome == OutcomeNotSent
			require.Equal(t, want, (&Error{Kind: kind, Outcome: outcome}).Retryable(), "%s, %q", kind, outcome)
		}
	}
}

func TestErrorKinds_returns_a_copy(t *testing.T) {
	mine := ErrorKinds()
	slices.Sort(mine)
	clear(mine)
	require.NotContains(t, ErrorKinds(), ErrorKind(""))
}
