// Package mcpgo gives a transport of the go-sdk to the client of mcp-go
// (github.com/mark3labs/mcp-go), and so all servers of a facade.Client to the hosts and
// frameworks that are built on mcp-go:
//
//	c := client.NewClient(mcpgo.New(gateway.Transport(supervised)))
//	err := c.Start(ctx)
//	_, err = c.Initialize(ctx, mcp.InitializeRequest{})
//	result, err := c.CallTool(ctx, request)
//
// The session survives every crash of a server; package gateway says what calls return then.
package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxNotifications is how many notifications wait for a handler that is slow. The oldest are
// dropped.
const maxNotifications = 1024

// Transport is a transport of mcp-go over one of the go-sdk. Safe for concurrent use.
type Transport struct {
	inner    sdk.Transport
	starting chan struct{} // holds a value while Start connects

	mu             sync.Mutex // guards the fields below
	conn           sdk.Connection
	stop           context.CancelFunc // ends the context of Connect; nil before Start
	closed         bool
	lost           error // why the connection ended by itself
	pending        map[jsonrpc.ID]chan *jsonrpc.Response
	onNotification func(mcp.JSONRPCNotification)
	onLost         func(error)
	notifications  []mcp.JSONRPCNotification

	ended chan struct{} // closed when the connection has ended
	wake  chan struct{} // holds a value while there are notifications
}

var _ transport.Interface = (*Transport)(nil)

// New returns a transport for client.NewClient of mcp-go, such as of gateway.Transport. It
// connects when it is started, once.
func New(inner sdk.Transport) *Transport {
	return &Transport{inner: inner, starting: make(chan struct{}, 1), pending: map[jsonrpc.ID]chan *jsonrpc.Response{}, ended: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// Start connects. It does nothing if the transport was started already, and fails if it is
// closed, even while it connects.
func (t *Transport) Start(ctx context.Context) error {
	select {
	case t.starting <- struct{}{}:
		defer func() { <-t.starting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, started, err := t.beginStart(ctx)
	if started || err != nil {
		return err
	}
	conn, err := t.inner.Connect(ctx)
	if !t.endStart(conn, err) {
		if err == nil {
			_ = conn.Close()
		}
		return transport.ErrTransportClosed
	}
	if err != nil {
		return err
	}
	go t.read(conn)
	go t.deliver()
	return nil
}

// beginStart returns the context of Connect, which ends with Close.
func (t *Transport) beginStart(ctx context.Context) (connect context.Context, started bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, false, transport.ErrTransportClosed
	case t.conn != nil:
		return nil, true, nil
	}
	connect, t.stop = context.WithCancel(ctx)
	return connect, false, nil
}

// endStart keeps the connection. It reports false if the transport was closed meanwhile.
func (t *Transport) endStart(conn sdk.Connection, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || t.closed {
		t.stop()
	} else {
		t.conn = conn
	}
	return !t.closed
}

// read passes on what the server sends, until the connection ends.
func (t *Transport) read(conn sdk.Connection) {
	for {
		m, err := conn.Read(context.Background())
		if err != nil {
			t.end(err)
			return
		}
		switch m := m.(type) {
		case *jsonrpc.Response:
			t.mu.Lock()
			answer := t.pending[m.ID]
			delete(t.pending, m.ID)
			t.mu.Unlock()
			if answer != nil {
				answer <- m // it has room for one
			}
		case *jsonrpc.Request:
			if m.ID.IsValid() { // no handler of requests: a gateway sends none
				_ = conn.Write(context.Background(), &jsonrpc.Response{ID: m.ID,
					Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client answers no requests"}})
				continue
			}
			t.queue(m)
		}
	}
}

// end fails the requests in flight.
func (t *Transport) end(err error) {
	t.mu.Lock()
	if t.lost == nil {
		t.lost = err
		close(t.ended)
	}
	onLost := t.onLost
	if t.closed {
		onLost = nil
	}
	t.mu.Unlock()
	if onLost != nil {
		onLost(err)
	}
}

// queue keeps a notification for deliver.
func (t *Transport) queue(m *jsonrpc.Request) {
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{Method: m.Method}}
	if len(m.Params) > 0 && json.Unmarshal(m.Params, &n.Params) != nil {
		return
	}
	t.mu.Lock()
	if len(t.notifications) == maxNotifications {
		t.notifications = t.notifications[1:]
	}
	t.notifications = append(t.notifications, n)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// deliver calls the handler with one notification after another, so that a handler may send
// requests.
func (t *Transport) deliver() {
	for {
		select {
		case <-t.wake:
		case <-t.ended:
			return
		}
		for {
			t.mu.Lock()
			handler := t.onNotification
			if len(t.notifications) == 0 {
				t.mu.Unlock()
				break
			}
			n := t.notifications[0]
			t.notifications = t.notifications[1:]
			t.mu.Unlock()
			if handler != nil {
				handler(n)
			}
		}
	}
}

// SendRequest sends a request and waits for its response, until ctx ends. The client of
// mcp-go then cancels the request.
func (t *Transport) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	id, err := sdkID(request.ID)
	if err != nil {
		return nil, err
	}
	params, err := encode(request.Params)
	if err != nil {
		return nil, err
	}
	answer := make(chan *jsonrpc.Response, 1)
	conn, err := t.begin(id, answer)
	if err != nil {
		return nil, err
	}
	defer t.forget(id, answer)
	if err := conn.Write(ctx, &jsonrpc.Request{ID: id, Method: request.Method, Params: params}); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return response(request.ID, r), nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-t.ended:
		err = fmt.Errorf("%w: %w", transport.ErrTransportClosed, t.lost)
	}
	select { // both may have happened: an answer that was read counts
	case r := <-answer:
		return response(request.ID, r), nil
	default:
		return nil, err
	}
}

// begin registers a request.
func (t *Transport) begin(id jsonrpc.ID, answer chan *jsonrpc.Response) (sdk.Connection, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil || t.closed {
		return nil, transport.ErrTransportClosed
	}
	if t.pending[id] != nil {
		return nil, fmt.Errorf("a request with id %v is in flight", id.Raw())
	}
	t.pending[id] = answer
	return t.conn, nil
}

func (t *Transport) forget(id jsonrpc.ID, answer chan *jsonrpc.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending[id] == answer {
		delete(t.pending, id)
	}
}

// SendNotification sends a notification.
func (t *Transport) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	t.mu.Lock()
	conn, closed := t.conn, t.closed
	t.mu.Unlock()
	if conn == nil || closed {
		return transport.ErrTransportClosed
	}
	params, err := encode(n.Params)
	if err != nil {
		return err
	}
	return conn.Write(ctx, &jsonrpc.Request{Method: n.Method, Params: params})
}

// SetNotificationHandler sets the function that gets all notifications, in order. It may send
// requests.
func (t *Transport) SetNotificationHandler(handler func(mcp.JSONRPCNotification)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onNotification = handler
}

// SetConnectionLostHandler sets the function that is called when the session ends by itself,
// which a session of package gateway does only when its facade.Client is closed.
func (t *Transport) SetConnectionLostHandler(handler func(error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onLost = handler
}

// Close ends the session, and the context of a Start that still connects. It may be called
// more than once.
func (t *Transport) Close() error {
	t.mu.Lock()
	conn, again := t.conn, t.closed
	t.closed = true
	if t.stop != nil {
		defer t.stop()
	}
	t.mu.Unlock()
	if conn == nil || again {
		return nil
	}
	return conn.Close()
}

// GetSessionId implements transport.Interface.
func (t *Transport) GetSessionId() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return ""
	}
	return t.conn.SessionID()
}

// sdkID converts an id of mcp-go, which is text or a number.
func sdkID(id mcp.RequestId) (jsonrpc.ID, error) {
	value := id.Value()
	switch n := value.(type) {
	case int64:
		value = float64(n)
	case int:
		value = float64(n)
	case nil:
		return jsonrpc.ID{}, errors.New("a request needs an id")
	}
	return jsonrpc.MakeID(value)
}

func encode(params any) (json.RawMessage, error) {
	if params == nil {
		return nil, nil
	}
	return json.Marshal(params)
}

func response(id mcp.RequestId, r *jsonrpc.Response) *transport.JSONRPCResponse {
	out := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Result: r.Result}
	var wire *jsonrpc.Error
	switch {
	case r.Error == nil:
	case errors.As(r.Error, &wire):
		out.Error = &mcp.JSONRPCErrorDetails{Code: int(wire.Code), Message: wire.Message}
		if len(wire.Data) > 0 {
			out.Error.Data = wire.Data
		}
	default:
		out.Error = &mcp.JSONRPCErrorDetails{Code: jsonrpc.CodeInternalError, Message: r.Error.Error()}
	}
	return out
}
