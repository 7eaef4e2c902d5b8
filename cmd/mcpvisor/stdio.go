package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/attach"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/bridge"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/daemon"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type stdioCmd struct {
	Profile string `help:"Offer what this profile of the configuration offers (default: everything)." placeholder:"NAME"`
	NoStart bool   `help:"Do not start mcpvisor run: wait until it is running."`
}

// Run implements kong's command.
func (cmd *stdioCmd) Run(inv *invocation) error {
	d := &runDialer{inv: inv, profile: cmd.Profile, start: !cmd.NoStart}
	err := bridge.Run(inv.Context, inv.In, inv.Out, bridge.Options{Dial: d.dial, Log: d.log})
	if errors.Is(err, context.Canceled) { // hosts end their servers by a signal
		return nil
	}
	return err
}

const (
	// returnTimeout is how long a run that has ended may take to come back before another one is
	// started in its place.
	returnTimeout = 5 * time.Second
	// startTimeout bounds how long a run takes until it accepts sessions.
	startTimeout = 30 * time.Second
	// dialPoll is the pause between attempts to reach a run that starts.
	dialPoll = 50 * time.Millisecond
)

// runDialer opens sessions with the `mcpvisor run` of the configuration. One goroutine uses it.
type runDialer struct {
	inv     *invocation
	profile string // empty: everything
	start   bool   // start a run if none is running
	// returns: the run that was reached last is one of the user's own, who may be restarting it.
	returns bool
	last    string
}

// log prints what happens to connections, each line once in a row.
func (d *runDialer) log(format string, args ...any) {
	line := display.Text(fmt.Sprintf(format, args...))
	if line != d.last {
		d.last = line
		_, _ = fmt.Fprintln(d.inv.Err, "mcpvisor:", line)
	}
}

// dial opens a session. It starts a run if there is none, and if one that has ended does not
// come back.
func (d *runDialer) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	bound := time.Duration(0)
	if d.returns || !d.start {
		bound = returnTimeout
	}
	session, err := d.await(ctx, bound, nil)
	if !d.start || !isAbsent(err) {
		return session, err
	}
	started, err := daemon.Start(d.inv.Sources)
	if err != nil {
		return nil, err
	}
	session, err = d.await(ctx, startTimeout, started.Ended)
	if isAbsent(err) {
		select {
		case <-started.Ended:
			return nil, started.Reason()
		default:
		}
		return nil, fmt.Errorf("mcpvisor run has not accepted a session within %v; see %s", startTimeout, started.Log)
	}
	if err == nil {
		d.log("started mcpvisor run; it writes to %s", started.Log)
	}
	return session, err
}

// isAbsent reports whether an error says that no run accepts sessions.
func isAbsent(err error) bool {
	return errors.Is(err, attach.ErrNotRunning) || errors.Is(err, attach.ErrStopping)
}

// await tries to open a session until a run accepts it, within a bound. When ended is closed it
// tries a little longer: another run may have been started at the same time.
func (d *runDialer) await(ctx context.Context, bound time.Duration, ended <-chan struct{}) (io.ReadWriteCloser, error) {
	for until := time.Now().Add(bound); ; {
		session, err := attach.DialMCP(ctx, d.inv.Sources.Key, d.profile)
		if err == nil {
			d.returns = !session.UntilUnused
			return session, nil
		}
		if !isAbsent(err) || !time.Now().Before(until) {
			return nil, err
		}
		select {
		case <-ended:
			ended = nil
			if short := time.Now().Add(time.Second); short.Before(until) {
				until = short
			}
		default:
		}
		if err := backoff.Sleep(ctx, dialPoll); err != nil {
			return nil, err
		}
	}
}
