// Package websocket reaches servers behind WebSockets for the command: entries of type "ws".
// One message of JSON-RPC is one message of the WebSocket.
package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// subprotocol is what both sides name in the handshake.
const subprotocol = "mcp"

// maxHeaderBytes bounds the head of the answer to the handshake.
const maxHeaderBytes = 256 << 10

// Option reads entries of type "ws". It is one value, so that specs of equal entries are equal.
var Option = config.WithWebSocket(Transport)

// Transport reaches the server of an entry.
func Transport(w config.WebSocket) *mcpvisor.Transport {
	return &mcpvisor.Transport{New: func(context.Context) (mcp.Transport, error) { return transport(w), nil }}
}

type transport config.WebSocket

// Connect implements [mcp.Transport]. The headers go to the address alone: a redirect is an
// error. Errors name no address, which may hold secrets.
func (t transport) Connect(ctx context.Context) (mcp.Connection, error) {
	header := http.Header{}
	for name, value := range t.Headers {
		header.Set(name, value)
	}
	// One handshake, and HTTP/1.1: a WebSocket takes its connection over (RFC 6455, section 4).
	dialer := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes, Protocols: new(http.Protocols)}
	dialer.Protocols.SetHTTP1(true)
	client := &http.Client{Transport: dialer, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ws, response, err := websocket.Dial(ctx, t.URL, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header, Host: header.Get("Host"), Subprotocols: []string{subprotocol}}) //nolint:bodyclose // the library has closed it
	if err != nil {
		return nil, dialCause(response, err)
	}
	ws.SetReadLimit(int64(t.MaxMessageBytes))
	return connection{ws}, nil
}

// dialCause explains why a WebSocket could not be opened. response is nil if none came.
func dialCause(response *http.Response, err error) error {
	if response == nil {
		var about *url.Error
		if errors.As(err, &about) { // it repeats the address
			err = about.Err
		}
		return &supervisor.Cause{Kind: supervisor.CauseSpawn, Message: "the WebSocket could not be opened: " + err.Error(), Err: err}
	}
	status := fmt.Sprintf("HTTP %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	c := &supervisor.Cause{Kind: supervisor.CauseHandshake, Message: "the server answered the handshake of the WebSocket with " + status}
	switch code := response.StatusCode; {
	case code == http.StatusSwitchingProtocols: // err has what the server sent, which has no bound
		c.Message += ", and not as a WebSocket does"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		c.Kind, c.Permanent = supervisor.CauseAuth, true
		c.Message += "; put valid credentials into \"headers\""
	case code >= 300 && code < 400:
		c.Kind, c.Permanent = supervisor.CauseConfig, true
		c.Message += "; a redirect is not followed, so write the address that it leads to"
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds <= 3600 {
			c.RetryAfter = time.Duration(seconds) * time.Second
		}
	case code < 500:
		c.Message += "; check that the address is that of a WebSocket"
	}
	return c
}

type connection struct{ ws *websocket.Conn }

// Read returns the next message. The end of ctx ends the connection.
func (c connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	_, text, err := c.ws.Read(ctx)
	if err != nil {
		return nil, readError(err)
	}
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, fmt.Errorf("the server sent something other than one JSON-RPC message: %w", err)
	}
	return m, nil
}

func readError(err error) error {
	var closed websocket.CloseError
	switch {
	case !errors.As(err, &closed):
		return err
	case closed.Code == websocket.StatusNormalClosure && closed.Reason == "":
		return io.EOF
	}
	reason := ""
	if closed.Reason != "" {
		reason = ": " + display.Line(closed.Reason) // at most 123 bytes (RFC 6455, section 5.5)
	}
	return fmt.Errorf("the server closed the WebSocket with status %d%s", closed.Code, reason)
}

func (c connection) Write(ctx context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.ws.Write(ctx, websocket.MessageText, text)
}

// Close ends the connection without the closing handshake, which could wait for the server.
func (c connection) Close() error { return c.ws.CloseNow() }

func (connection) SessionID() string { return "" }
