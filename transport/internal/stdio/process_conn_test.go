package stdio

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/transporttest"
)

// dyingProcess closes its stdout some time before it exits.
type dyingProcess struct {
	stdin   *io.PipeWriter
	stdout  *io.PipeReader
	exited  chan struct{}
	exiting bool
}

func (p *dyingProcess) Stdin() io.WriteCloser { return p.stdin }

func (p *dyingProcess) Stdout() io.ReadCloser { return p.stdout }

func (p *dyingProcess) GrowStdout() {}

func (p *dyingProcess) PID() int { return 0 }

func (p *dyingProcess) Exited() <-chan struct{} { return p.exited }

func (p *dyingProcess) OnExited(f func()) {
	go func() {
		<-p.exited
		f()
	}()
}

func (p *dyingProcess) Exiting() bool { return p.exiting }

func (p *dyingProcess) Terminate(time.Duration) { <-p.exited }

func (p *dyingProcess) Kill() {}

func (p *dyingProcess) StderrTail() (s monitor.ServerStderr) { return s }

func (p *dyingProcess) Release() error { return nil }

func (p *dyingProcess) ExitCause() *supervisor.Cause {
	return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 4"}
}

// TestProcessConn_streams_end_before_exit: on a busy machine the exit of a process may
// follow long after the end of its streams. While the process is exiting, its exit is
// the cause. Otherwise the end of the stream is the cause.
func TestProcessConn_streams_end_before_exit(t *testing.T) {
	for exiting, want := range map[bool]supervisor.CauseKind{true: supervisor.CauseExit, false: supervisor.CauseClosed} {
		synctest.Test(t, func(t *testing.T) {
			_, inW := io.Pipe()
			outR, outW := io.Pipe()
			p := &dyingProcess{stdin: inW, stdout: outR, exited: make(chan struct{}), exiting: exiting}
			conn := newProcessConn(p, newMemorySession())
			require.NoError(t, outW.Close())
			time.Sleep(10 * evidenceTimeout)
			close(p.exited)
			<-conn.lifetime.Released()
			require.Equal(t, want, conn.lifetime.Cause().Kind)
		})
	}
}

// TestProcessConn_streams_end_without_exit: a server that runs without its stdin or
// stdout is ended.
func TestProcessConn_streams_end_without_exit(t *testing.T) {
	for name, want := range map[string]string{"stdout": "closed its stdout", "stdin": "broke its stdin"} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			handshake := transporttest.LegacyServer(func(io.Writer) error { return nil }) // ends at the first call
			d, _ := newServerDialer(t, mcpvisor.EraLegacy, func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
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
			go func() { _, _ = s.Request(ctx, transporttest.TinyCall("any")) }() // its line is written to a closed pipe
			<-s.Dead()
			require.NoError(t, ctx.Err())
			require.Equal(t, supervisor.CauseClosed, s.Cause().Kind)
			require.Contains(t, s.Cause().Error(), want)
		})
	}
}

// slowProcess is a process whose output takes a while to arrive.
type slowProcess struct{ process.Process }

// slowReader delays each read.
type slowReader struct{ io.ReadCloser }

func (s slowProcess) Stdout() io.ReadCloser { return slowReader{s.Process.Stdout()} }

func (s slowReader) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	time.Sleep(evidenceTimeout / 2)
	return n, err
}

// TestProcessConn_response_written_before_exit: a response that the server wrote before
// it exited reaches its caller.
func TestProcessConn_response_written_before_exit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newServerDialer(t, mcpvisor.EraLegacy, replyServer(func(out io.Writer, e jsonrpc.Envelope) string {
			if string(e.Method) == `"tools/call"` {
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", e.ID)
				panic(errExits)
			}
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, e.ID, transporttest.LegacyAnswer)
		}))
		spawn := d.spawn
		d.spawn = func(uint64) (process.Process, *supervisor.Cause) {
			p, cause := spawn(1)
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
