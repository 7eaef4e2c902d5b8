package stdio

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/inbound"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
)

// dyingProcess closes its stdout and needs a while to exit.
type dyingProcess struct {
	stdin   *io.PipeWriter
	stdout  *io.PipeReader
	exited  chan struct{}
	exiting bool
}

func (p *dyingProcess) Stdin() io.WriteCloser   { return p.stdin }
func (p *dyingProcess) Stdout() io.ReadCloser   { return p.stdout }
func (p *dyingProcess) GrowStdout()             {}
func (p *dyingProcess) PID() int                { return 0 }
func (p *dyingProcess) Exited() <-chan struct{} { return p.exited }
func (p *dyingProcess) Exiting() bool           { return p.exiting }
func (p *dyingProcess) Terminate(time.Duration) { <-p.exited }
func (p *dyingProcess) Release() error          { return nil }
func (p *dyingProcess) ExitCause() *supervisor.Cause {
	return &supervisor.Cause{Kind: supervisor.CauseExit, Message: "exit status 4"}
}

// On a busy machine a process that is in exit may take long to get there after its
// streams have ended. Its exit is the cause all the same; that of one which lives
// on is the end of its stream.
func TestExiting_process_whose_streams_end_first(t *testing.T) {
	for exiting, want := range map[bool]supervisor.CauseKind{true: supervisor.CauseExit, false: supervisor.CauseClosed} {
		synctest.Test(t, func(t *testing.T) {
			_, inW := io.Pipe()
			outR, outW := io.Pipe()
			p := &dyingProcess{stdin: inW, stdout: outR, exited: make(chan struct{}), exiting: exiting}
			l := newLink(p, 1<<20, time.Second, new(jsonrpc.Notifications), nil, inbound.NewHandlerPool("s", transport.Options{}), nil)
			require.NoError(t, outW.Close())
			time.Sleep(10 * lastWords)
			close(p.exited)
			<-l.Released()
			require.Equal(t, want, l.Cause().Kind)
		})
	}
}
