package custom

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/test/testutil"
)

// fake is a transport and its connection. A nil function waits for the end of its context.
type fake struct {
	connect func(context.Context) error
	read    func(context.Context) (sdkrpc.Message, error)
	write   func(context.Context, sdkrpc.Message) error
	close   func() error
	closed  atomic.Int32
}

func (f *fake) Connect(ctx context.Context) (mcp.Connection, error) {
	if f.connect != nil {
		if err := f.connect(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *fake) Read(ctx context.Context) (sdkrpc.Message, error) {
	if f.read != nil {
		return f.read(ctx)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *fake) Write(ctx context.Context, m sdkrpc.Message) error {
	if f.write != nil {
		return f.write(ctx, m)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Close() error {
	f.closed.Add(1)
	if f.close != nil {
		return f.close()
	}
	return nil
}

func (f *fake) SessionID() string { return "" }

func (f *fake) spec() *mcpvisor.Transport {
	return &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return f, nil }}
}

func start(t *testing.T, server *mcpvisor.Transport) *Connection {
	t.Helper()
	p, cause := NewConnector(server, nil).Start()
	require.Nil(t, cause)
	return p.(*Connection)
}

// ping is a request as sessions write it.
const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}` + "\n"

var errBroken = errors.New("the cable is broken")

// The end of a connection by itself has the error of the host's method as its cause.
func TestConnection_ends(t *testing.T) {
	never := func() error { runtime.Goexit(); return nil }
	permanent := &supervisor.Cause{Kind: supervisor.CauseConfig, Permanent: true, Message: "no such host"}
	for name, c := range map[string]struct {
		server *fake
		with   func(context.Context) (mcp.Transport, error)
		kind   supervisor.CauseKind
		text   string
		is     error
	}{
		"New fails":        {with: func(context.Context) (mcp.Transport, error) { return nil, errBroken }, kind: supervisor.CauseSpawn, text: "could not connect: the cable is broken", is: errBroken},
		"New panics":       {with: func(context.Context) (mcp.Transport, error) { panic("oh") }, kind: supervisor.CauseSpawn, text: "could not connect: the host's Transport.New panicked: oh"},
		"New ends":         {with: func(context.Context) (mcp.Transport, error) { return nil, never() }, kind: supervisor.CauseSpawn, text: "could not connect: the host's Transport.New ended its goroutine"},
		"New returns nil":  {with: func(context.Context) (mcp.Transport, error) { return nil, nil }, kind: supervisor.CauseSpawn, text: "could not connect: the host's Transport.New returned neither a transport nor an error"},
		"Connect fails":    {server: &fake{connect: func(context.Context) error { return errBroken }}, kind: supervisor.CauseSpawn, text: "could not connect: the cable is broken", is: errBroken},
		"Connect panics":   {server: &fake{connect: func(context.Context) error { panic("oh") }}, kind: supervisor.CauseSpawn, text: "could not connect: the host's Transport.Connect panicked: oh"},
		"Connect is final": {server: &fake{connect: func(context.Context) error { return permanent }}, kind: supervisor.CauseConfig, text: "no such host"},
		"Read fails": {server: &fake{read: func(context.Context) (sdkrpc.Message, error) { return nil, errBroken }}, kind: supervisor.CauseClosed,
			text: "the connection ended: the cable is broken", is: errBroken},
		"Read ends": {server: &fake{read: func(context.Context) (sdkrpc.Message, error) { return nil, io.EOF }}, kind: supervisor.CauseClosed,
			text: "the server closed the connection", is: io.EOF},
		"Read panics": {server: &fake{read: func(context.Context) (sdkrpc.Message, error) { panic("oh") }}, kind: supervisor.CauseClosed,
			text: "the connection ended: the host's Connection.Read panicked: oh"},
		"Read exits": {server: &fake{read: func(context.Context) (sdkrpc.Message, error) { return nil, never() }}, kind: supervisor.CauseClosed,
			text: "the connection ended: the host's transport ended its goroutine"},
		"Read returns nil": {server: &fake{read: func(context.Context) (sdkrpc.Message, error) { return nil, nil }}, kind: supervisor.CauseClosed,
			text: "the connection ended: " + errNoMessage.Error(), is: errNoMessage},
		"Write fails": {server: &fake{write: func(context.Context, sdkrpc.Message) error { return errBroken }}, kind: supervisor.CauseClosed,
			text: "writing to the server failed: the cable is broken", is: errBroken},
		"Write panics": {server: &fake{write: func(context.Context, sdkrpc.Message) error { panic("oh") }}, kind: supervisor.CauseClosed,
			text: "writing to the server failed: the host's Connection.Write panicked: oh"},
		"Close panics": {server: &fake{read: func(context.Context) (sdkrpc.Message, error) { return nil, errBroken }, close: func() error { panic("oh") }},
			kind: supervisor.CauseClosed, text: "the connection ended: the cable is broken"},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			server := &mcpvisor.Transport{New: c.with}
			if c.with == nil {
				server = c.server.spec()
			}
			p := start(t, server)
			go func() { _, _ = io.WriteString(p.Stdin(), ping) }()
			_, err := io.Copy(io.Discard, p.Stdout())
			require.NoError(t, err, "stdout ends")
			<-p.Exited()
			cause := p.ExitCause()
			require.Equal(t, c.kind, cause.Kind)
			require.Equal(t, c.text, cause.Message)
			require.Equal(t, cause.Permanent, name == "Connect is final")
			if c.is != nil {
				require.ErrorIs(t, cause, c.is)
			}
			p.Terminate(time.Hour)
			require.NoError(t, p.Release())
			if c.server != nil && c.server.connect == nil {
				require.EqualValues(t, 1, c.server.closed.Load(), "Close is called once")
			}
		})
	}
}

// Messages pass both ways. What the server sent before it closed is read although a Write
// fails first.
func TestConnection_messages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan sdkrpc.Message, 1)
		sent := 0
		f := &fake{
			write: func(_ context.Context, m sdkrpc.Message) error {
				written <- m
				return errBroken
			},
			read: func(ctx context.Context) (sdkrpc.Message, error) {
				if sent++; sent > 1 {
					return nil, io.EOF
				}
				m := (<-written).(*sdkrpc.Request)
				time.Sleep(evidenceTimeout / 2) // in the bubble: the Write has failed
				return &sdkrpc.Response{ID: m.ID, Result: []byte(`{}`)}, nil
			},
		}
		p := start(t, f.spec())
		_, err := io.WriteString(p.Stdin(), ping)
		require.NoError(t, err)
		answer, err := io.ReadAll(p.Stdout())
		require.NoError(t, err)
		require.Equal(t, `{"jsonrpc":"2.0","id":7,"result":{}}`+"\n", string(answer))
		<-p.Exited()
		require.Equal(t, "the server closed the connection", p.ExitCause().Message)
		p.Terminate(time.Hour)
		require.NoError(t, p.Release())
	})
}

// A Write that is rejected fails its request, and the connection stays.
func TestConnection_rejected_Write(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rejected := true
		f := &fake{write: func(context.Context, sdkrpc.Message) error {
			if rejected {
				return &sdkrpc.Error{Code: codeRejected, Message: "too large"}
			}
			return errBroken
		}}
		p := start(t, f.spec())
		lines := bufio.NewReader(p.Stdout())
		for _, refused := range []string{ping, `{"jsonrpc":"2.0","id":7,"method":[]}` + "\n"} {
			_, err := io.WriteString(p.Stdin(), `{"jsonrpc":"2.0","method":"notification"}`+"\n"+refused)
			require.NoError(t, err)
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			require.Contains(t, line, `"id":7,"error":{"code":-32005`)
		}
		require.Nil(t, p.cause.Load())
		p.Terminate(time.Hour)
		require.NoError(t, p.Release())
	})
}

// Terminate ends every method that obeys its context or Close, at once.
func TestConnection_Terminate(t *testing.T) {
	stuck := make(chan struct{})
	for name, f := range map[string]*fake{
		"idle":    {},
		"connect": {connect: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		"closing": {read: func(context.Context) (sdkrpc.Message, error) { <-stuck; return nil, io.EOF },
			close: func() error { close(stuck); return nil }},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			if name == "closing" {
				stuck = make(chan struct{})
			}
			p := start(t, f.spec())
			go func() { _, _ = io.WriteString(p.Stdin(), ping) }()
			time.Sleep(time.Second)
			began := time.Now()
			p.Terminate(time.Hour)
			require.Zero(t, time.Since(began))
			require.NoError(t, p.Release())
			require.Equal(t, "the connection was closed", p.ExitCause().Message)
		})
	}
}

// A method that never returns is left behind and named. A connection that comes too late is
// closed.
func TestConnection_left_behind(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		make func(<-chan struct{}) *fake
	}{
		"Connect": {"New or Connect", func(stuck <-chan struct{}) *fake {
			return &fake{connect: func(context.Context) error { <-stuck; return nil }}
		}},
		"Read": {"Read, Write or Close", func(stuck <-chan struct{}) *fake {
			return &fake{read: func(context.Context) (sdkrpc.Message, error) { <-stuck; return nil, io.EOF }}
		}},
		"Write": {"Read, Write or Close", func(stuck <-chan struct{}) *fake {
			return &fake{write: func(context.Context, sdkrpc.Message) error { <-stuck; return nil }}
		}},
		"Close": {"Read, Write or Close", func(stuck <-chan struct{}) *fake { return &fake{close: func() error { <-stuck; return nil }} }},
	} {
		testutil.RunInBubble(t, name, func(t *testing.T) {
			stuck := make(chan struct{})
			f := c.make(stuck)
			connector := NewConnector(f.spec(), nil)
			const connections = 3
			for range connections {
				p, cause := connector.Start()
				require.Nil(t, cause)
				go func() { _, _ = io.WriteString(p.Stdin(), ping) }()
				time.Sleep(time.Second)
				began := time.Now()
				p.Terminate(time.Minute)
				require.Equal(t, time.Minute, time.Since(began))
				require.ErrorContains(t, p.Release(), c.text+" of the host's transport has not returned")
			}
			close(stuck)
			time.Sleep(time.Second)
			require.EqualValues(t, connections, f.closed.Load(), "each connection is closed once")
			p, cause := connector.Start()
			require.Nil(t, cause)
			p.Terminate(time.Minute)
			require.NoError(t, p.Release())
		})
	}
}

// A transport that New returns twice may work. If it does not, the cause says why.
func TestConnection_same_transport_twice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{read: func(context.Context) (sdkrpc.Message, error) { return nil, io.EOF }}
		connector := NewConnector(f.spec(), nil)
		var texts []string
		for range 2 {
			p, _ := connector.Start()
			<-p.Exited()
			texts = append(texts, p.ExitCause().Message)
			p.Terminate(time.Hour)
			require.NoError(t, p.Release())
		}
		require.Equal(t, "the server closed the connection", texts[0])
		require.Equal(t, "the server closed the connection; Transport.New returned the same transport as before, and most transports can connect only once", texts[1])
	})
}

// dialer is a transport without an identity: each of its values can connect.
type dialer struct{ url string }

func (dialer) Connect(context.Context) (mcp.Connection, error) { return nil, errBroken }

// Equal values are no repetition: a struct that holds an address connects any number of times.
func TestConnection_equal_values(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connector := NewConnector(&mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return dialer{"wss://example.org"}, nil }}, nil)
		for range 2 {
			p, _ := connector.Start()
			<-p.Exited()
			require.Contains(t, p.ExitCause().Message, errBroken.Error())
			require.NotContains(t, p.ExitCause().Message, "the same transport")
			p.Terminate(time.Hour)
			require.NoError(t, p.Release())
		}
	})
}

func TestAppendMessage(t *testing.T) {
	id := func(v any) sdkrpc.ID {
		made, err := sdkrpc.MakeID(v)
		require.NoError(t, err)
		return made
	}
	for name, c := range map[string]struct {
		message sdkrpc.Message
		line    string
	}{
		"request":              {&sdkrpc.Request{ID: id(7.0), Method: "ping"}, `{"jsonrpc":"2.0","id":7,"method":"ping"}`},
		"request, text id":     {&sdkrpc.Request{ID: id("a\"\n"), Method: "x\ny", Params: []byte(`{}`)}, `{"jsonrpc":"2.0","id":"a\"\n","method":"x\ny","params":{}}`},
		"notification":         {&sdkrpc.Request{Method: "n", Params: []byte("{\n\"a\":\n1}")}, `{"jsonrpc":"2.0","method":"n","params":{ "a": 1}}`},
		"result":               {&sdkrpc.Response{ID: id(1.0), Result: []byte(`{"a":1}`)}, `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`},
		"neither":              {&sdkrpc.Response{ID: id(1.0)}, `{"jsonrpc":"2.0","id":1}`},
		"no id":                {&sdkrpc.Response{Result: []byte(`1`)}, `{"jsonrpc":"2.0","id":null,"result":1}`},
		"error":                {&sdkrpc.Response{ID: id(1.0), Error: &sdkrpc.Error{Code: -1, Message: "no", Data: []byte(`[1]`)}}, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":[1]}}`},
		"error, data not JSON": {&sdkrpc.Response{ID: id(1.0), Error: &sdkrpc.Error{Code: -1, Message: "no", Data: []byte(`[`)}}, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`},
		"error, wrapped":       {&sdkrpc.Response{ID: id(1.0), Error: fmt.Errorf("outer: %w", &sdkrpc.Error{Code: -2, Message: "no"})}, `{"jsonrpc":"2.0","id":1,"error":{"code":-2,"message":"outer: no"}}`},
		"error of Go":          {&sdkrpc.Response{ID: id(1.0), Error: errors.New("no")}, `{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"no"}}`},
		"result is not JSON":   {&sdkrpc.Response{ID: id(1.0), Result: []byte("{\n")}, `{"jsonrpc":"2.0","id":1,"result":{ }`},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := appendMessage([]byte("x"), c.message)
			require.NoError(t, err)
			require.Equal(t, "x"+c.line+"\n", string(line))
		})
	}
	for _, none := range []sdkrpc.Message{nil, (*sdkrpc.Request)(nil), (*sdkrpc.Response)(nil)} {
		_, err := appendMessage(nil, none)
		require.ErrorIs(t, err, errNoMessage)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
