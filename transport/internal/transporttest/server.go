package transporttest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/transport"
	"github.com/mcpvisor/mcpvisor/transport/internal/jsonrpc"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

const (
	// ModernAnswer is the result member with which a modern server answers server/discover.
	ModernAnswer = `"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}`
	// LegacyAnswer is the result member with which a legacy server answers initialize.
	LegacyAnswer = `"result":{"protocolVersion":"2025-11-25","capabilities":{}}`
	// UnknownMethod is the error member for a method that the server does not have.
	UnknownMethod = `"error":{"code":-32601,"message":"no such method"}`
)

// ServeFunc is the type of mcpvisor.InMemory.Serve.
type ServeFunc = func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error

// LegacyServer makes a server that knows initialize and tools/call. At a call with "end" in
// it the server returns the result of end.
func LegacyServer(end func(stderr io.Writer) error) ServeFunc {
	return func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
		lines := bufio.NewScanner(stdin)
		for lines.Scan() {
			e, _ := jsonrpc.ScanEnvelope(lines.Bytes())
			var result string
			switch string(e.Method) {
			case `"initialize"`:
				result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"tiny","version":"3"}}`
			case `"tools/call"`:
				if strings.Contains(lines.Text(), `"end"`) {
					return end(stderr)
				}
				result = `{"content":[]}`
			default:
				if e.ID == nil {
					continue
				}
				fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", e.ID)
				continue
			}
			fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", e.ID, result)
		}
		return lines.Err()
	}
}

// SendingServer makes a legacy server that sends lines before it answers the first call, and a
// ping after them. It closes answered when the ping is answered.
func SendingServer(lines []string, answered chan<- struct{}) ServeFunc {
	return func(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
		in := bufio.NewScanner(stdin)
		for in.Scan() {
			e, _ := jsonrpc.ScanEnvelope(in.Bytes())
			switch string(e.Method) {
			case `"initialize"`:
				fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n", e.ID)
			case `"server/discover"`:
				fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", e.ID)
			case `"tools/call"`:
				for _, line := range lines {
					fmt.Fprintln(stdout, line)
				}
				fmt.Fprintf(stdout, `{"jsonrpc":"2.0","id":"alive","method":"ping"}`+"\n"+`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", e.ID)
			case "":
				if string(e.ID) == `"alive"` {
					close(answered)
				}
			}
		}
		return in.Err()
	}
}

// Partner is a server in memory that answers the handshake. The test sends and receives all
// other messages.
type Partner struct {
	T         *testing.T
	modern    bool
	Handshake chan ClientMessage // the requests of the handshake
	Received  chan ClientMessage // all other messages
	// Stdout holds the stdout of the server. A goroutine that writes takes it out and puts it back.
	Stdout chan io.Writer
	dial   func(spec mcpvisor.ServerSpec, opts transport.Options) transport.Dialer
}

// ClientMessage is one message of the client.
type ClientMessage struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
	Result json.RawMessage            `json:"result"`
	Error  json.RawMessage            `json:"error"`
}

// NewPartner makes a partner whose sessions dial makes. modern is its era.
func NewPartner(t *testing.T, modern bool, dial func(mcpvisor.ServerSpec, transport.Options) transport.Dialer) *Partner {
	t.Helper()
	return &Partner{T: t, modern: modern, dial: dial, Handshake: make(chan ClientMessage, 10), Received: make(chan ClientMessage, 1000), Stdout: make(chan io.Writer, 1)}
}

// Serve is for mcpvisor.InMemory.
func (p *Partner) Serve(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
	p.Stdout <- stdout
	lines := bufio.NewScanner(stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m ClientMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		var reply string
		switch m.Method {
		case "server/discover":
			if reply = UnknownMethod; p.modern {
				reply = ModernAnswer
			}
		case "initialize":
			if reply = LegacyAnswer; p.modern {
				reply = UnknownMethod
			}
		case "notifications/initialized":
			continue
		default:
			p.Received <- m
			continue
		}
		p.Handshake <- m
		p.Send(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, reply)
	}
	return lines.Err()
}

// Send writes one line to the client.
func (p *Partner) Send(format string, args ...any) {
	w := <-p.Stdout
	fmt.Fprintf(w, format+"\n", args...)
	p.Stdout <- w
}

// Next returns the next message of the client. It must be a request with this method, or
// a response if that is empty.
func (p *Partner) Next(method string) ClientMessage {
	p.T.Helper()
	m := <-p.Received
	require.Equal(p.T, method, m.Method)
	return m
}

// Open opens a session with the partner.
func (p *Partner) Open(h transport.Handlers) transport.Session {
	p.T.Helper()
	d := p.Dialer(h)
	s := d.NewSession()
	ReleaseAtEnd(p.T, s)
	require.NoError(p.T, s.Open(p.T.Context()))
	return s
}

// Dialer makes a dialer for sessions with the partner.
func (p *Partner) Dialer(h transport.Handlers) transport.Dialer {
	p.T.Helper()
	return p.dial(mcpvisor.ServerSpec{Name: "m", InMemory: &mcpvisor.InMemory{Serve: p.Serve}, Secrets: []string{Secret}},
		transport.Options{ClientInfo: ClientInfo, Handlers: h, Logger: zerolog.Nop()})
}

// Message is a request or notification of the client.
type Message struct {
	ID     int64           `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}
