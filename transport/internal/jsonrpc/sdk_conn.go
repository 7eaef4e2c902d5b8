package jsonrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// SDKConn is the connection over which the client of the go-sdk negotiates the version of the
// protocol. It has one request at a time. A message that cannot be sent, or that gets no
// answer, fails by itself, and not the connection. The client gets no other message of the
// server. After the negotiation the connection is closed: the session sends the requests of its
// callers by itself.
type SDKConn struct {
	call    SDKCall
	notify  SDKNotify
	answers chan sdkrpc.Message // has room for one
	closed  chan struct{}
	close   sync.Once // closes closed
	legacy  atomic.Bool
}

// SpeaksLegacy reports whether the server has said, in its answer to server/discover, that it speaks a
// version of the legacy era, too.
func (c *SDKConn) SpeaksLegacy() bool { return c.legacy.Load() }

// SDKCall sends a request of the go-sdk, with its text, and returns its answer.
type SDKCall = func(ctx context.Context, r *sdkrpc.Request, text []byte) (*sdkrpc.Response, error)

// SDKNotify sends a notification of the go-sdk.
type SDKNotify = func(ctx context.Context, method string, text []byte) error

// NewSDKConn makes a connection that is to be used once.
func NewSDKConn(call SDKCall, notify SDKNotify) *SDKConn {
	return &SDKConn{call: call, notify: notify, answers: make(chan sdkrpc.Message, 1), closed: make(chan struct{})}
}

// Connect implements [mcp.Transport].
func (c *SDKConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements [mcp.Connection].
func (*SDKConn) SessionID() string { return "" }

// Close implements [mcp.Connection].
func (c *SDKConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}

// Read implements [mcp.Connection].
func (c *SDKConn) Read(ctx context.Context) (sdkrpc.Message, error) {
	select {
	case m := <-c.answers:
		return m, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [mcp.Connection]. It returns when the message is sent, and a request
// answered.
func (c *SDKConn) Write(ctx context.Context, m sdkrpc.Message) error {
	r, ok := m.(*sdkrpc.Request)
	if !ok {
		return nil // the client got no request that it could answer
	}
	text, err := sdkrpc.EncodeMessage(r)
	if err != nil {
		return rejectedError(err)
	}
	if !r.IsCall() {
		if err := c.notify(ctx, r.Method, text); err != nil {
			return rejectedError(err)
		}
		return nil
	}
	answer, err := c.call(ctx, r, text)
	if err != nil {
		return rejectedError(err)
	}
	if r.Method == "server/discover" && answer.Error == nil {
		var said struct {
			SupportedVersions []string `json:"supportedVersions"`
		}
		_ = json.Unmarshal(answer.Result, &said) // the go-sdk decodes it, too, and says what is wrong
		c.legacy.Store(slices.ContainsFunc(said.SupportedVersions, func(v string) bool { return slices.Contains(legacyVersions, v) }))
	}
	c.answers <- answer
	return nil
}

// legacyVersions are the versions of the legacy era that the go-sdk speaks.
var legacyVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", LegacyVersion}

// rejectedError makes the go-sdk fail one request instead of the whole session: its
// jsonrpc2.ErrRejected, "rejected by transport", has the code -32005.
func rejectedError(err error) error {
	return fmt.Errorf("%w: %w", &sdkrpc.Error{Code: -32005, Message: "rejected by transport"}, err)
}
