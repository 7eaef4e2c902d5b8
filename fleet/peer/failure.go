package peer

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/transport"
)

const (
	// maxFailure is the longest error that travels, in bytes. A longer one loses its JSON-RPC error,
	// its lines of stderr and its supervisor.Cause.
	maxFailure = 1 << 20
	// maxFailureText is the longest text in such an error.
	maxFailureText = 16 << 10
)

// failure is a *mcpvisor.Error as it travels.
type failure struct {
	Server     string             `json:"server,omitempty"`
	Gen        uint64             `json:"gen,omitempty"`
	Epoch      uint64             `json:"epoch,omitempty"`
	Op         string             `json:"op,omitempty"`
	Kind       mcpvisor.ErrorKind `json:"kind"`
	Outcome    mcpvisor.Outcome   `json:"outcome,omitempty"`
	RetryAfter time.Duration      `json:"retryAfterNs,omitempty"`
	Hint       string             `json:"hint,omitempty"`
	Cause      string             `json:"cause,omitempty"`
	Stderr     []string           `json:"stderr,omitempty"`
	Refusal    string             `json:"refusal,omitempty"`
	RPC        *jsonrpc.Error     `json:"rpc,omitempty"`
	Session    *supervisor.Cause  `json:"session,omitempty"`
}

const (
	refusalMoved     = "moved"
	refusalLeaseOver = "lease_over"
	// Since version 2.
	refusalUnsupported = "unsupported"
	// Nodes that do not know it tell the kind and the text.
	refusalOperator = "operator"
)

// encodeFailure encodes the error of a call. An error without a *mcpvisor.Error has an unknown outcome.
func encodeFailure(err error) []byte {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		e = &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: err}
	}
	f := failure{Server: e.Server, Gen: e.Gen, Epoch: e.Epoch, Op: e.Op, Kind: e.Kind, Outcome: e.Outcome, RetryAfter: e.RetryAfter, Hint: e.Hint, Stderr: e.Stderr}
	if e.Cause != nil {
		f.Cause = e.Cause.Error()
		switch {
		case errors.Is(e.Cause, ErrMoved):
			f.Refusal = refusalMoved
		case errors.Is(e.Cause, ErrLeaseOver):
			f.Refusal = refusalLeaseOver
		case errors.Is(e.Cause, ErrUnsupported):
			f.Refusal = refusalUnsupported
		case errors.Is(e.Cause, transport.ErrByOperator):
			f.Refusal = refusalOperator
		}
		_ = errors.As(e.Cause, &f.RPC) || errors.As(e.Cause, &f.Session)
	}
	b, err := json.Marshal(f)
	if err == nil && len(b) <= maxFailure {
		return b
	}
	f.Stderr, f.RPC, f.Session = nil, nil, nil
	f.Cause, f.Hint, f.Op = f.Cause[:min(len(f.Cause), maxFailureText)], f.Hint[:min(len(f.Hint), maxFailureText)], f.Op[:min(len(f.Op), maxFailureText)]
	if b, err = json.Marshal(f); err != nil {
		return []byte(`{"kind":"protocol","outcome":"unknown"}`)
	}
	return b
}

// decodeFailure decodes the error of a call.
func decodeFailure(body []byte) *mcpvisor.Error {
	var f failure
	if err := json.Unmarshal(body, &f); err != nil || f.Kind == "" {
		return &mcpvisor.Error{Kind: mcpvisor.ErrProtocol, Outcome: mcpvisor.OutcomeUnknown, Cause: errors.New("the node answered with an error that cannot be read")}
	}
	e := &mcpvisor.Error{Server: f.Server, Gen: f.Gen, Epoch: f.Epoch, Op: f.Op, Kind: f.Kind, Outcome: f.Outcome, RetryAfter: f.RetryAfter, Hint: f.Hint, Stderr: f.Stderr}
	cause := &remoteCause{text: f.Cause}
	switch {
	case f.Refusal == refusalMoved:
		cause.of = ErrMoved
	case f.Refusal == refusalLeaseOver:
		cause.of = ErrLeaseOver
	case f.Refusal == refusalUnsupported:
		cause.of = ErrUnsupported
	case f.Refusal == refusalOperator:
		cause.of = transport.ErrByOperator
	case f.RPC != nil:
		cause.of = f.RPC
	case f.Session != nil:
		cause.of = f.Session
	}
	if cause.text != "" || cause.of != nil {
		e.Cause = cause
	}
	return e
}

// remoteCause is the cause of an error on another node: its text, and the error that errors.Is and
// errors.As find.
type remoteCause struct {
	text string
	of   error
}

func (c *remoteCause) Error() string { return c.text }

func (c *remoteCause) Unwrap() error { return c.of }

// refused returns the error of a call that was not executed.
func refused(server string, epoch uint64, why error) *mcpvisor.Error {
	return &mcpvisor.Error{Server: server, Epoch: epoch, Kind: mcpvisor.ErrUnavailable, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: refusedRetryAfter, Cause: why}
}

// refusedRetryAfter is the RetryAfter of a call that another node refuses. It is a guess: it is not known when
// the server runs again, and where.
const refusedRetryAfter = 100 * time.Millisecond
