// Package websocket reaches MCP servers over WebSockets, on coder/websocket. It is an example
// of mcpvisor.ServerSpec.Transport: one message of JSON-RPC is one text message.
//
//	mcpvisor.ServerSpec{
//		Name: "remote",
//		Transport: &mcpvisor.Transport{
//			New:    func(context.Context) (mcp.Transport, error) { return websocket.Transport{URL: url}, nil },
//			Target: "wss://example.org/mcp",
//		},
//	}
package websocket

import (
	"context"
	"fmt"
	"io"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Subprotocol is what both sides name in the handshake of the WebSocket.
const Subprotocol = "mcp"

// Transport dials a server. It can be connected any number of times.
type Transport struct {
	// URL is the address: ws, wss, http or https. Required.
	URL string
	// MaxMessageBytes bounds a message that is read; a longer one ends the connection.
	// Default, and below 1: 64 MiB.
	MaxMessageBytes int64
}

// Connect implements [mcp.Transport].
func (t Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	ws, _, err := websocket.Dial(ctx, t.URL, &websocket.DialOptions{Subprotocols: []string{Subprotocol}})
	if err != nil {
		return nil, err
	}
	return Connection(ws, t.MaxMessageBytes), nil
}

// Connection is the connection over an open WebSocket, of a client or of a server.
func Connection(ws *websocket.Conn, maxMessageBytes int64) mcp.Connection {
	if maxMessageBytes < 1 {
		maxMessageBytes = 64 << 20
	}
	ws.SetReadLimit(maxMessageBytes)
	return connection{ws}
}

type connection struct{ ws *websocket.Conn }

// Read returns the next message. The end of ctx ends the connection.
func (c connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	_, text, err := c.ws.Read(ctx)
	if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, fmt.Errorf("the server sent what is not JSON-RPC: %w", err)
	}
	return m, nil
}

func (c connection) Write(ctx context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.ws.Write(ctx, websocket.MessageText, text)
}

// Close ends the connection without the closing handshake, which could wait for the peer.
func (c connection) Close() error { return c.ws.CloseNow() }

func (connection) SessionID() string { return "" }
