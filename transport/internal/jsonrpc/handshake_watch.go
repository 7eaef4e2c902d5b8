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
	// handshakeCheckTimeout bounds the request that asks whether a server still knows
	// of its handshake.
	handshakeCheckTimeout = 5 * time.Second
	// handshakeCheckPause is how long a server that does is not asked again.
	handshakeCheckPause = time.Minute
)

// HandshakeWatch notices that a legacy server does not know of its handshake any
// more: a wrapper has restarted it on the same pipes, or behind the same address.
// Such a server answers pings, which are allowed before initialize, and refuses
// everything else, so that the probes find nothing.
//
// An error that reads like it may be about something else that a tool calls
// initialized. So the server is asked for a list that it has given before: only if
// it refuses that in the same way, the session is over. Safe for concurrent use.
type HandshakeWatch struct {
	mu   sync.Mutex
	list string    // the method of a list that the server has given; empty: none yet
	next time.Time // no check is made before
}

// uninitializedText is how servers say that they have seen no initialize.
var uninitializedText = regexp.MustCompile(`not (?:yet |been )?initiali[sz]ed|before initiali[sz]ation|during (?:session )?initiali[sz]ation`)

// uninitialized is the message of an error that reads as if the server had seen no
// initialize; empty for any other error.
func uninitialized(err error) string {
	var rpc *sdkrpc.Error
	if !errors.As(err, &rpc) {
		return ""
	}
	text := strings.ToLower(rpc.Message)
	if uninitializedText.MatchString(text) {
		return rpc.Message
	}
	// The Python SDK does not say why.
	if rpc.Code == sdkrpc.CodeInvalidParams && text == "invalid request parameters" {
		return rpc.Message
	}
	return ""
}

// Observe looks at how a request of ours has ended. If that raises a suspicion it
// returns the method of the list to ask for.
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

// Check asks for the list, and returns why the session is over, if it is.
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
