// Package custom runs a server that is reached over a transport of the host
// (mcpvisor.Transport). [Connection] implements process.Process: its stdin and stdout carry
// the messages of an mcp.Connection, one on each line. So the session of package stdio serves
// these servers, too. Start with connection.go.
package custom

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
	"github.com/mcpvisor/mcpvisor/internal/hostlimit"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/plainjson"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport/internal/memory"
	"github.com/mcpvisor/mcpvisor/transport/internal/process"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// Connection is one connection of a [Connector], from New to Close. It ends when one of the
// methods of the host fails, and when it is terminated. Its exit is that moment; what the
// host's methods need to return after it is waited for by Terminate.
type Connection struct {
	process.Process // the pair of streams, and the exit

	connector *Connector
	ctx       context.Context // of all methods of the host; ends with the connection
	cancel    context.CancelFunc
	cause     atomic.Pointer[supervisor.Cause] // why it ended, set once; nil while it is open and when it was terminated
	returned  chan struct{}                    // closed when the methods of the host have returned
	connected atomic.Bool                      // Connect has returned a connection
	received  atomic.Bool                      // Read has returned a message
	repeated  atomic.Bool                      // New has returned the transport of an earlier connection
}

func newConnection(c *Connector) *Connection {
	p := &Connection{connector: c, returned: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.Process = memory.Start(&mcpvisor.InMemory{Serve: p.serve}, 0, nil)
	return p
}

// serve stands for the process: it returns when the connection ends.
func (p *Connection) serve(_ context.Context, stdin io.ReadCloser, stdout io.WriteCloser, _ io.Writer) error {
	go func() {
		defer close(p.returned)
		defer p.end(supervisor.CauseSpawn, "could not connect", errGoexit) // if nothing else has ended it
		conn, err := p.connect()
		if err != nil {
			p.end(supervisor.CauseSpawn, "could not connect", err)
			return
		}
		p.connected.Store(true)
		var loops sync.WaitGroup
		readEnded := make(chan struct{})
		loops.Go(func() {
			defer close(readEnded)
			p.run("the connection ended", func() error { return p.read(conn, stdout) })
		})
		loops.Go(func() {
			p.run("writing to the server failed", func() error {
				defer p.awaitLastMessages(readEnded)
				return p.write(conn, stdin, stdout)
			})
		})
		<-p.ctx.Done()
		loops.Go(func() { _ = hostcall.Call("Connection.Close", conn.Close) })
		loops.Wait()
	}()
	<-p.ctx.Done()
	return nil
}

// errGoexit is the error of a method that called runtime.Goexit, as t.FailNow does.
var errGoexit = errors.New("the host's transport ended its goroutine")

func (p *Connection) connect() (mcp.Connection, error) {
	t, err := hostcall.Value("Transport.New", func() (mcp.Transport, error) { return p.connector.server.New(p.ctx) })
	if err == nil && t == nil {
		err = errors.New("the host's Transport.New returned neither a transport nor an error")
	}
	if err != nil {
		return nil, err
	}
	p.repeated.Store(p.connector.isRepeated(t))
	conn, err := hostcall.Value("Transport.Connect", func() (mcp.Connection, error) { return t.Connect(p.ctx) })
	if err == nil && conn == nil {
		err = errors.New("Connect of the host's transport returned neither a connection nor an error")
	}
	return conn, err
}

// run runs a loop, and ends the connection when the loop ends.
func (p *Connection) run(what string, loop func() error) {
	err := errGoexit
	defer func() { p.end(supervisor.CauseClosed, what, err) }()
	err = loop()
}

// end ends the connection. The first call counts. err is nil if the session has ended.
func (p *Connection) end(kind supervisor.CauseKind, what string, err error) {
	if p.ctx.Err() == nil && err != nil {
		p.cause.CompareAndSwap(nil, p.explain(kind, what, err))
	}
	p.cancel()
}

func (p *Connection) explain(kind supervisor.CauseKind, what string, err error) *supervisor.Cause {
	redactor := p.connector.redactor
	if own, ok := errors.AsType[*supervisor.Cause](err); ok && own != nil {
		c := own.Clone()
		c.Message, c.Err = redactor.Text(c.Message), redactor.Error(c.Err)
		for i, line := range c.Stderr {
			c.Stderr[i] = redactor.Text(line)
		}
		return c
	}
	c := &supervisor.Cause{Kind: kind, Host: hostlimit.Reached(err), Message: what + ": " + redactor.Text(err.Error()), Err: redactor.Error(err)}
	if errors.Is(err, io.EOF) {
		c.Message = "the server closed the connection"
	}
	if p.repeated.Load() && !p.received.Load() {
		c.Message += "; Transport.New returned the same transport as before, and most transports can connect only once"
	}
	return c
}

// maxKeptLine is the longest buffer that read keeps, in bytes.
const maxKeptLine = 64 << 10

// read writes the messages of the server to stdout.
func (p *Connection) read(conn mcp.Connection, stdout io.Writer) error {
	var line []byte
	for {
		var err error
		line, err = hostcall.ValueHere("Connection.Read", func() ([]byte, error) {
			message, err := conn.Read(p.ctx)
			if err != nil {
				return nil, err
			}
			return appendMessage(line[:0], message)
		})
		if err != nil {
			return err
		}
		p.received.Store(true)
		if _, err := stdout.Write(line); err != nil {
			return nil //nolint:nilerr // the session has ended
		}
		if cap(line) > maxKeptLine {
			line = nil
		}
	}
}

// write sends the lines of stdin to the server.
func (p *Connection) write(conn mcp.Connection, stdin io.Reader, stdout io.Writer) error {
	lines := bufio.NewReader(stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // the session has ended
		}
		message, err := sdkrpc.DecodeMessage(line)
		if err != nil {
			err = &sdkrpc.Error{Code: codeRejected, Message: "the go-sdk cannot represent the message: " + err.Error()}
		} else {
			err = hostcall.CallHere("Connection.Write", func() error { return conn.Write(p.ctx, message) })
		}
		switch {
		case err == nil:
		case !isRejected(err):
			return err
		default:
			_, _ = stdout.Write(rejection(line, err)) // it fails when the session has ended
		}
	}
}

// rejection is the answer to a request that could not be written; empty for other messages.
func rejection(line []byte, err error) []byte {
	id := jsonscan.Member(line, "id")
	if id == nil || jsonscan.Member(line, "method") == nil {
		return nil
	}
	b := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"error":`...)
	return append(appendError(b, err), "}\n"...)
}

// evidenceTimeout is how long to wait, after a Write has failed, for the messages that the
// server sent before it closed the connection.
const evidenceTimeout = 50 * time.Millisecond

// awaitLastMessages waits until Read has failed, too, or the connection ends.
func (p *Connection) awaitLastMessages(readEnded <-chan struct{}) {
	select {
	case <-readEnded:
	case <-p.ctx.Done():
	case <-time.After(evidenceTimeout):
	}
}

// codeRejected is the code of an error of Write that is about the one message, and not about
// the connection.
const codeRejected = -32005

func isRejected(err error) bool {
	var wire *sdkrpc.Error
	return errors.As(err, &wire) && wire != nil && wire.Code == codeRejected
}

// ExitCause implements process.Process.
func (p *Connection) ExitCause() *supervisor.Cause {
	if c := p.cause.Load(); c != nil {
		return c.Clone()
	}
	return &supervisor.Cause{Kind: supervisor.CauseClosed, Message: "the connection was closed"}
}

// Terminate implements process.Process. It closes the connection at once, and waits for the
// methods of the host to return.
func (p *Connection) Terminate(grace time.Duration) {
	p.cancel()
	p.Process.Terminate(grace)
	select {
	case <-p.returned:
	case <-time.After(grace):
	}
}

// Kill implements process.Process. It closes the connection.
func (p *Connection) Kill() {
	p.cancel()
	p.Process.Kill()
}

// Release implements process.Process. The error says that methods of the host have not
// returned.
func (p *Connection) Release() error {
	err := p.Process.Release()
	select {
	case <-p.returned:
		return err
	default:
	}
	if !p.connected.Load() {
		return errors.Join(err, errors.New("New or Connect of the host's transport has not returned; it must return when its context ends"))
	}
	return errors.Join(err, errors.New("Read, Write or Close of the host's transport has not returned; Close must end all of them"))
}

// Connector starts the connections of one server. Safe for concurrent use.
type Connector struct {
	server   *mcpvisor.Transport
	redactor redact.Redactor

	mu   sync.Mutex
	last mcp.Transport // what New returned last
}

// NewConnector returns the connector of a server whose specification names the secrets of
// the redactor.
func NewConnector(server *mcpvisor.Transport, redactor redact.Redactor) *Connector {
	return &Connector{server: server, redactor: redactor}
}

// Start begins to connect. It does not block.
func (c *Connector) Start() (process.Process, *supervisor.Cause) { return newConnection(c), nil }

// isRepeated records a transport and reports whether New has returned it before. Only
// pointers tell: equal values may be transports of their own.
func (c *Connector) isRepeated(t mcp.Transport) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.last
	c.last = t
	kind := reflect.TypeOf(t)
	return kind.Kind() == reflect.Pointer && kind.Elem().Size() > 0 && last == t
}

// errNoMessage is the error of a Read that returns neither a message nor an error.
var errNoMessage = errors.New("Read of the host's transport returned neither a message nor an error")

// appendMessage appends a message as one line. Results and params are written as they are,
// so that the reader of the line judges them as it judges those of any server.
func appendMessage(b []byte, message sdkrpc.Message) ([]byte, error) {
	start := len(b)
	switch m := message.(type) {
	case *sdkrpc.Request:
		if m == nil {
			return b, errNoMessage
		}
		b = append(b, `{"jsonrpc":"2.0"`...)
		if m.ID.IsValid() {
			b = appendID(append(b, `,"id":`...), m.ID)
		}
		b = plainjson.AppendString(append(b, `,"method":`...), m.Method)
		if len(m.Params) > 0 {
			b = append(append(b, `,"params":`...), m.Params...)
		}
	case *sdkrpc.Response:
		if m == nil {
			return b, errNoMessage
		}
		b = appendID(append(b, `{"jsonrpc":"2.0","id":`...), m.ID)
		switch {
		case m.Error != nil:
			b = appendError(append(b, `,"error":`...), m.Error)
		case len(m.Result) > 0:
			b = append(append(b, `,"result":`...), m.Result...)
		}
	default:
		return b, errNoMessage
	}
	return append(append(b[:start], jsonscan.OneLine(b[start:])...), "}\n"...), nil
}

func appendID(b []byte, id sdkrpc.ID) []byte {
	switch v := id.Raw().(type) {
	case int64:
		return strconv.AppendInt(b, v, 10)
	case string:
		return plainjson.AppendString(b, v)
	}
	return append(b, "null"...)
}

// appendError appends the error of a response as the go-sdk encodes it: an error that wraps
// a *jsonrpc.Error has its code.
func appendError(b []byte, err error) []byte {
	wire := sdkrpc.Error{Message: err.Error()}
	if wrapped, ok := errors.AsType[*sdkrpc.Error](err); ok && wrapped != nil {
		wire.Code = wrapped.Code
		if json.Valid(wrapped.Data) {
			wire.Data = wrapped.Data
		}
	}
	text, _ := json.Marshal(wire) // it always marshals: its data is valid
	return append(b, text...)
}
