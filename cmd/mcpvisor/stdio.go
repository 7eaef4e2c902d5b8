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
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

type stdioCmd struct {
	Profile string `help:"Offer what this profile of the configuration offers (default: everything)." placeholder:"NAME"`
	NoStart bool   `help:"Do not start mcpvisor run: wait until it is running."`
}

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

// dial opens a session. It starts a run if none serves, or if the last one ended and does not come back. Of the processes
// that find no run, that with the lock starts one, and the others wait for it.
func (d *runDialer) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	var started *daemon.Started
	var ended <-chan struct{}
	var unlock func()
	startAt := time.Now()
	if d.returns || !d.start {
		startAt = startAt.Add(returnTimeout)
	}
	until := startAt.Add(startTimeout)
	if !d.start {
		until = startAt
	}
	for {
		session, err := attach.DialMCP(ctx, d.inv.Sources.Key, d.profile)
		stopping := errors.Is(err, attach.ErrStopping)
		switch {
		case err == nil:
			if d.returns = !session.UntilUnused; started != nil {
				d.log("started mcpvisor run; it writes to %s", started.Log)
			}
			return session, nil
		case !stopping && !errors.Is(err, attach.ErrNotRunning):
			return nil, err
		case stopping && d.start && started == nil: // it ends within a time of its own
			until = time.Now().Add(startTimeout)
		case !time.Now().Before(until):
			return nil, d.absent(started, err)
		case unlock != nil && started == nil:
			if started, err = daemon.Start(d.inv.Sources); err != nil {
				return nil, err
			}
			ended = started.Ended
		case d.start && unlock == nil && !time.Now().Before(startAt):
			if unlock, err = socket.LockStart(d.inv.Sources.Key); err != nil {
				return nil, err
			}
			if unlock != nil {
				defer unlock() // once
				continue       // another process may have started a run before it released the lock
			}
		}
		select {
		case <-ended: // a little longer: a run of the user may have been started at the same time
			ended, until = nil, time.Now().Add(time.Second)
		default:
		}
		if err := backoff.Sleep(ctx, dialPoll); err != nil {
			return nil, err
		}
	}
}

// absent says why no run accepts a session. started is the one that was started; nil without one.
func (d *runDialer) absent(started *daemon.Started, err error) error {
	switch {
	case !d.start:
		return err
	case started == nil:
		return fmt.Errorf("another process starts mcpvisor run, or takes over from one, and it has not accepted a session within %v", startTimeout)
	}
	select {
	case <-started.Ended:
		return started.Reason()
	default:
		return fmt.Errorf("mcpvisor run has not accepted a session within %v; see %s", startTimeout, started.Log)
	}
}
