package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// partner is a server in memory that shakes hands by itself; the rest of the
// talk is the test's.
type partner struct {
	t      *testing.T
	modern bool
	hello  chan said // what it was greeted with, by a request of the handshake
	heard  chan said // everything else
	out    chan io.Writer
}

// said is one line of the client's, with its members.
type said struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
	Result json.RawMessage            `json:"result"`
	Error  json.RawMessage            `json:"error"`
}

func newPartner(t *testing.T, modern bool) *partner {
	t.Helper()
	return &partner{t: t, modern: modern, hello: make(chan said, 10), heard: make(chan said, 1000), out: make(chan io.Writer, 1)}
}

func (p *partner) serve(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
	p.out <- stdout
	lines := bufio.NewScanner(stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m said
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		var reply string
		switch m.Method {
		case "server/discover":
			if reply = unknownMethod; p.modern {
				reply = isModernServer
			}
		case "initialize":
			if reply = isLegacyServer; p.modern {
				reply = unknownMethod
			}
		case "notifications/initialized":
			continue
		default:
			p.heard <- m
			continue
		}
		p.hello <- m
		p.say(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, reply)
	}
	return lines.Err()
}

func (p *partner) say(format string, args ...any) {
	w := <-p.out
	fmt.Fprintf(w, format+"\n", args...)
	p.out <- w
}

// next is what the client says next; it must be a request of the method, or an
// answer if that is empty.
func (p *partner) next(method string) said {
	p.t.Helper()
	m := <-p.heard
	require.Equal(p.t, method, m.Method)
	return m
}

// open opens a session with the partner.
func (p *partner) open(h Handlers) *pipedSession {
	p.t.Helper()
	d := p.dialer(h)
	s := d.NewSession().(*pipedSession)
	releaseAtEnd(p.t, s)
	require.NoError(p.t, s.Open(p.t.Context()))
	return s
}

func (p *partner) dialer(h Handlers) Dialer {
	p.t.Helper()
	d, err := NewDialer(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: p.serve}},
		Options{ClientInfo: testInfo, Handlers: h, Logger: zerolog.Nop()})
	require.NoError(p.t, err)
	d.(*pipedDialer).redactor = strings.NewReplacer(secretOfRounds, "***").Replace
	return d
}

// endSession ends a session and waits until nothing of it is left.
func endSession(t *testing.T, s Session) {
	t.Helper()
	s.Abort(&supervisor.Cause{Kind: supervisor.CauseRequested, Message: "test is over"})
	<-s.Released()
}
