package stdio

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// It is released already: whatever it started now, nobody would wait for.
func TestASessionThatIsGivenUpStartsNothing(t *testing.T) {
	d, _ := lives(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	d.spawn = func() (process.Process, *supervisor.Cause) {
		require.Fail(t, "a process is started")
		return nil, transporttest.ErrGivenUp
	}
	s := d.NewSession()
	s.Abort(transporttest.ErrGivenUp)
	transporttest.RequireClosed(t, s.Released(), "there is nothing to release")
	require.ErrorIs(t, s.Open(t.Context()), transporttest.ErrGivenUp)
}

// The process that is just being started belongs to the session: its release
// waits for it.
func TestASessionThatIsGivenUpWhileItSpawns(t *testing.T) {
	d, _ := lives(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	s, spawn := d.NewSession(), d.spawn
	var started process.Process
	d.spawn = func() (process.Process, *supervisor.Cause) {
		s.Abort(transporttest.ErrGivenUp)
		select {
		case <-s.Released():
			require.Fail(t, "released before the process is there")
		default:
		}
		p, cause := spawn()
		started = p
		return p, cause
	}
	require.ErrorIs(t, s.Open(t.Context()), transporttest.ErrGivenUp)
	transporttest.RequireClosed(t, s.Released(), "nothing is left")
	transporttest.RequireClosed(t, started.Exited(), "the process is not ended")
}

// A session that could not be opened, or is not yet, was sent nothing.
func TestRequestsOfASessionThatIsNotOpen(t *testing.T) {
	d, _ := lives(t, mcpvisor.EraAuto, transporttest.LegacyServer(nil))
	s := d.NewSession()
	for _, kind := range []mcpvisor.ErrorKind{mcpvisor.KindUnavailable, mcpvisor.KindClosed} {
		_, err := s.Request(t.Context(), transporttest.ToolCall)
		var e *mcpvisor.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, kind, e.Kind)
		require.Equal(t, mcpvisor.OutcomeNotSent, e.Outcome)
		s.Abort(transporttest.ErrGivenUp)
	}
}

// TestProcessesFollowOneAnother: when a server is asked anew, the process that
// was asked before is gone. Two of them might hold one lock, or one port.
func TestProcessesFollowOneAnother(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		var running, most atomic.Int64
		late := eraServer(transporttest.ModernAnswer, unknownVersion, 0)
		d, started := lives(t, mcpvisor.EraAuto, asleep(10*time.Second,
			func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				err := late(ctx, stdin, stdout, stderr)
				time.Sleep(time.Second) // it tidies up
				return err
			}))
		era, cause := openFor(t, d)
		require.Nil(t, cause)
		require.Equal(t, mcpvisor.EraModern, era)
		require.EqualValues(t, 2, started.Load())
		require.EqualValues(t, 1, most.Load())
	})
}

// TestAFirstProcessThatStaysHoldsNobodyUp: Open keeps its time also while it
// waits for the end of a process.
func TestAFirstProcessThatStaysHoldsNobodyUp(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		late := eraServer(transporttest.ModernAnswer, unknownVersion, 0)
		d, started := lives(t, mcpvisor.EraAuto, asleep(10*time.Second,
			func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
				err := late(ctx, stdin, stdout, stderr)
				time.Sleep(2 * time.Hour)
				return err
			}))
		d.spec.Timeouts.Shutdown = time.Hour
		s := d.NewSession()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.Error(t, s.Open(ctx))
		require.LessOrEqual(t, time.Since(began), time.Minute)
		<-s.Released()
		require.EqualValues(t, 1, started.Load())
		time.Sleep(3 * time.Hour)
	})
}

// TestEraThatIsFixed: the other one is neither asked for nor taken, and there is
// no hurry.
func TestEraThatIsFixed(t *testing.T) {
	for name, c := range map[string]struct {
		serve     transporttest.ServeFunc
		kind      supervisor.CauseKind // none if it is served
		permanent bool
	}{
		"slow":        {eraServer(transporttest.ModernAnswer, transporttest.UnknownMethod, 20*time.Second), "", false},
		"legacy":      {eraServer(transporttest.UnknownMethod, transporttest.LegacyAnswer, 0), supervisor.CauseVersion, true},
		"ends itself": {eraServer(exits, transporttest.LegacyAnswer, 0), supervisor.CauseExit, false},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				d, started := lives(t, mcpvisor.EraModern, c.serve)
				for try := range faith + 2 { // it is not doubted after some crashes either
					era, cause := openFor(t, d)
					require.EqualValues(t, 1+try, started.Load())
					if c.kind == "" {
						require.Nil(t, cause)
						require.Equal(t, mcpvisor.EraModern, era)
						continue
					}
					require.NotNil(t, cause)
					require.Equal(t, c.kind, cause.Kind)
					require.Equal(t, c.permanent, cause.Permanent)
				}
			})
		})
	}
}

// TestALateRefusalIsNoAnswer: a server that says late that it does not know
// server/discover is no modern one, neither now nor in the next session.
func TestALateRefusalIsNoAnswer(t *testing.T) {
	const late = mcpvisor.DefaultNegotiateTimeout + lastWords/2
	transporttest.InBubble(t, func(t *testing.T) {
		d, started := lives(t, mcpvisor.EraAuto, eraServer(transporttest.UnknownMethod, unknownVersion, late))
		_, cause := openFor(t, d)
		require.NotNil(t, cause)
		require.EqualValues(t, 1, started.Load(), "it is not asked twice")
	})
	transporttest.InBubble(t, func(t *testing.T) {
		d, _ := lives(t, mcpvisor.EraAuto, eraServer(transporttest.UnknownMethod, transporttest.LegacyAnswer, late))
		s := d.NewSession()
		require.NoError(t, s.Open(t.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, mcpvisor.EraLegacy, d.era.Load())
		transporttest.EndSession(t, s)
	})
}

// TestAStartThatHangsIsExplained: by the last words, also of a process that has
// not ended, and without what it was told in confidence.
func TestAStartThatHangsIsExplained(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		d, _ := lives(t, mcpvisor.EraAuto, func(ctx context.Context, _ io.ReadCloser, _ io.WriteCloser, stderr io.Writer) error {
			_, _ = io.WriteString(stderr, "waiting for the database\n")
			<-ctx.Done()
			return ctx.Err()
		})
		_, cause := openFor(t, d)
		require.NotNil(t, cause)
		require.Equal(t, supervisor.CauseTimeout, cause.Kind)
		require.Equal(t, []string{"waiting for the database"}, cause.Stderr)
	})
	d, _ := lives(t, mcpvisor.EraLegacy, eraServer("", `"error":{"code":-1,"message":"bad key hunter22"}`, 0))
	d.redactor = strings.NewReplacer(transporttest.Secret, "***").Replace
	_, cause := openFor(t, d)
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

// TestAServerWithoutItsStreamsIsOfNoUse: it lives, but nobody can hear it, or be
// heard.
func TestAServerWithoutItsStreamsIsOfNoUse(t *testing.T) {
	for name, says := range map[string]string{"stdout": "closed its stdout", "stdin": "broke its stdin"} {
		t.Run(name, func(t *testing.T) {
			transporttest.InBubble(t, func(t *testing.T) {
				handshake := transporttest.LegacyServer(func(io.Writer) error { return nil }) // until the first call
				d, _ := lives(t, mcpvisor.EraLegacy, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
					_ = handshake(ctx, stdin, stdout, stderr)
					if name == "stdout" {
						_ = stdout.Close()
					} else {
						_ = stdin.Close()
					}
					<-ctx.Done()
					return nil
				})
				s := d.NewSession()
				require.NoError(t, s.Open(t.Context()))
				defer transporttest.EndSession(t, s)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { _, _ = s.Request(ctx, transporttest.TinyCall("end")) }()
				synctest.Wait()
				go func() { _, _ = s.Request(ctx, transporttest.TinyCall("any")) }() // finds nobody who reads
				<-s.Dead()
				require.NoError(t, ctx.Err())
				require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
				require.Contains(t, s.Cause().Error(), says)
			})
		})
	}
}

// slowProcess is one whose words take a while to arrive.
type slowProcess struct{ process.Process }

type slowReader struct{ io.ReadCloser }

func (s slowProcess) Stdout() io.ReadCloser { return slowReader{s.Process.Stdout()} }

func (s slowReader) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	time.Sleep(lastWords / 2)
	return n, err
}

// TestAnAnswerOutlivesItsServer: what it said before it ended was said.
func TestAnAnswerOutlivesItsServer(t *testing.T) {
	transporttest.InBubble(t, func(t *testing.T) {
		d, _ := lives(t, mcpvisor.EraLegacy, answering(func(out io.Writer, e jsonrpc.Envelope) string {
			if string(e.Method) == `"tools/call"` {
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", e.ID)
				panic(errAsked)
			}
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, e.ID, transporttest.LegacyAnswer)
		}))
		spawn := d.spawn
		d.spawn = func() (process.Process, *supervisor.Cause) {
			p, cause := spawn()
			return slowProcess{p}, cause
		}
		s := d.NewSession()
		require.NoError(t, s.Open(t.Context()))
		result, err := s.Request(t.Context(), transporttest.TinyCall("any"))
		require.NoError(t, err)
		require.JSONEq(t, `{}`, string(result))
		<-s.Released()
		require.Equal(t, supervisor.CauseExit, s.Cause().Kind)
	})
}
