package mcpvisor

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Transport describes a server that is reached over a transport of the go-sdk, such as a
// WebSocket, the exec stream of a container, or a channel of SSH.
//
//	mcpvisor.ServerSpec{
//		Name: "remote",
//		Transport: &mcpvisor.Transport{
//			New:    func(context.Context) (mcp.Transport, error) { return webSocket{url}, nil },
//			Target: "wss://example.org/mcp",
//		},
//		Policy: supervisor.Retry(5, time.Second),
//	}
//
// Each start calls New, Connect of the transport, and then the methods of its Connection:
//
//   - Read in one goroutine. Its error is the cause of the end: the calls in flight fail
//     with ErrCrashed, and the policy decides what follows. io.EOF means that the server
//     closed the connection.
//   - Write in another goroutine, one message at a time. Its error ends the session, too,
//     except a *jsonrpc.Error with the code -32005 (rejected by the transport), which fails
//     that one request. A Write that blocks delays the requests to this server only: they
//     end by their timeouts, and an unanswered probe ends the session.
//   - Close once, when the session has ended.
//
// The context of all of them ends with the session. A method that ignores it and Close is
// left behind, and Unregister says so with ErrLeftBehind. A panic of any of them ends the
// session.
//
// All limits and timeouts apply. A message that Read returns is in memory already, so
// Limits.MaxMessageBytes only says whether it is used.
//
// Do not use it for mcp.CommandTransport and the HTTP transports of the go-sdk: with Stdio
// and HTTP a session survives more of what servers do, and its end has a better cause.
type Transport struct {
	// New returns the transport of one start. It may return the same one again if that can
	// connect more than once. If the error of New or Connect is a *supervisor.Cause, it is
	// the cause of the failed start, for example with Permanent, so that no retry is made.
	// Required.
	New func(ctx context.Context) (mcp.Transport, error)
	// Target describes in one line, without secrets, what is reached, for status and logs.
	// Default "(custom transport)".
	Target string
}

func (c *Transport) clone() *Transport {
	if c == nil {
		return nil
	}
	d := *c
	return &d
}

func (c *Transport) target() string {
	if c.Target == "" {
		return "(custom transport)"
	}
	return c.Target
}

func (c *Transport) validate() (errs []error) {
	if c.New == nil {
		errs = append(errs, errors.New("custom transport: Transport.New is nil; set the function that makes the transport"))
	}
	return errs
}
