package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

const (
	// handshakeCheckTimeout bounds the list request that checks whether the server still
	// knows its handshake.
	handshakeCheckTimeout = 5 * time.Second
	// handshakeCheckPause is the shortest time between two checks.
	handshakeCheckPause = time.Minute
)

// HandshakeWatch detects that a legacy server has lost its handshake: a wrapper restarted
// it on the same pipes or behind the same address. Such a server answers pings, which are
// allowed before initialize (MCP, lifecycle), and rejects everything else. So liveness
// probes do not detect the restart.
//
// The error of a tool may contain the same text about something else. So the session
// requests a list that the server has answered before. Only if the server rejects that
// request in the same way, the session ends. Safe for concurrent use.
type HandshakeWatch struct {
	mu   sync.Mutex
	list string    // method of the last list request that succeeded; empty: none so far
	next time.Time // no check before this time
}

// uninitializedText matches the error texts of SDKs for a request before initialize.
var uninitializedText = regexp.MustCompile(`not (?:yet |been )?initiali[sz]ed|before initiali[sz]ation|during (?:session )?initiali[sz]ation`)

// uninitialized returns the message of a JSON-RPC error that says that the server has
// received no initialize; empty for any other error.
func uninitialized(err error) string {
	var rpc *sdkrpc.Error
	if !errors.As(err, &rpc) {
		return ""
	}
	text := strings.ToLower(rpc.Message)
	if uninitializedText.MatchString(text) {
		return rpc.Message
	}
	// The Python SDK sends this text for every request before initialize.
	if rpc.Code == sdkrpc.CodeInvalidParams && text == "invalid request parameters" {
		return rpc.Message
	}
	return ""
}

// Observe gets the outcome of each request of this client. It returns the method of the
// list to pass to Check if the outcome suggests that the handshake was lost; empty
// otherwise.
func (w *HandshakeWatch) Observe(method string, err error) (list string) {
	switch {
	case err == nil && strings.HasSuffix(method, "/list"):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.list = method
		return ""
	case err == nil || uninitialized(err) == "":
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.list == "" || now.Before(w.next) {
		return ""
	}
	w.next = now.Add(handshakeCheckPause)
	return w.list
}

// Check sends the list request, and returns the cause of the end of the session if the
// handshake was lost; nil otherwise.
func (w *HandshakeWatch) Check(ctx context.Context, list string, request func(context.Context, transport.Request) (json.RawMessage, error)) *supervisor.Cause {
	ctx, cancel := context.WithTimeout(ctx, handshakeCheckTimeout)
	defer cancel()
	_, err := request(ctx, transport.Request{Method: list})
	var e *mcpvisor.Error
	message := uninitialized(err)
	if message == "" || !errors.As(err, &e) {
		return nil
	}
	return &supervisor.Cause{Kind: supervisor.CauseClosed, Err: e.Cause,
		Message: fmt.Sprintf("the server was restarted behind its pipes or its address: it answers %s with %q", list, message)}
}
