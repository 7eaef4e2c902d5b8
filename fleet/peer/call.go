package peer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/fleet/internal/varint"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/transport"
)

// Caller makes calls of MCP servers and returns results as the servers sent them. A relay.Relay
// is one.
type Caller interface {
	CallToolRaw(ctx context.Context, tool string, args json.RawMessage, opts ...facade.CallOption) (json.RawMessage, error)
	ReadResourceRaw(ctx context.Context, server, uri string, opts ...facade.CallOption) (json.RawMessage, error)
	GetPromptRaw(ctx context.Context, prompt string, args map[string]string, opts ...facade.CallOption) (json.RawMessage, error)
	CompleteRaw(ctx context.Context, server string, r facade.CompletionRequest, opts ...facade.CallOption) (json.RawMessage, error)
}

var _ Caller = relay.Relay{}

// Why a node has not executed a call; nothing was sent to the server. They are causes of a *mcpvisor.Error.
var (
	// ErrMoved: the server is not placed on that node, or no longer in that epoch.
	ErrMoved = errors.New("the server has moved")
	// ErrLeaseOver: the node has lost its lease, and may not execute calls of the server.
	ErrLeaseOver = errors.New("the lease of the node is over")
	// ErrUnsupported: the node does not know a request of this kind. It runs an earlier version, or
	// is not configured for it.
	ErrUnsupported = errors.New("the node does not know this kind of request")
)

// method is what a call asks for.
type method byte

const (
	methodTool method = iota + 1
	methodRead
	methodPrompt
	methodComplete
	// Since version 2.
	methodCatalog // target is the digest; for no epoch
	methodRequest // args are the method of MCP and its params
	methodNotices // ends with the route
)

// since returns the version of the protocol that a call needs.
func (c *call) since() int {
	if c.method > methodComplete || c.settings.TaskRelay != nil || c.settings.WithoutTasks || c.settings.Key.Principal != "" || c.settings.Principal != "" {
		return 2
	}
	return 1
}

// errUnknownMethod is the error of a call that can be read but not executed.
var errUnknownMethod = errors.New("this version does not know the kind of the call")

// call is a call as it travels. args are the rest of its message.
type call struct {
	method method
	server string // for the check of the epoch
	epoch  uint64
	left   time.Duration // until the deadline of the caller; 0: it has none
	target string        // the tool or prompt as the caller named it, or the URI
	args   []byte        // JSON: of the tool, of the prompt, or the completion request

	// Of Route.Within; they do not travel.
	over <-chan struct{}
	ends time.Time
	// Of Route.Into; they do not travel.
	buffer *budget.Budget
	into   *budget.Share

	settings relay.CallSettings // without functions and handlers
	progress bool               // the caller wants the reports of progress
	logs     bool               // the caller wants the log messages, from settings.LogLevel
	answerer uint64             // number of the handlers of the caller; 0: none
	answers  transport.Offer    // what they answer
	all      bool               // they answer everything
	refuses  bool               // the caller has handlers, and they answer nothing

	notices   *noticeFuncs // of the caller, with methodNotices; does not travel
	taskRelay bool         // settings has a TaskRelay; only its TTL travels
	keyOwner  bool         // the key in settings has a principal
	principal bool         // settings has a principal
}

// flagFields returns the boolean fields of a call that travel, lowest bit first. New ones are added at
// the end.
func (c *call) flagFields() []*bool {
	return []*bool{&c.settings.WaitReady, &c.settings.WithoutValidation, &c.settings.Relay, &c.settings.HasKey, &c.progress, &c.logs,
		&c.all, &c.answers.Sample, &c.answers.SampleTools, &c.answers.ElicitForm, &c.answers.ElicitURL, &c.answers.Roots,
		&c.taskRelay, &c.settings.WithoutTasks, &c.refuses, &c.keyOwner, &c.principal} // of version 2
}

func (c *call) flags() (flags uint64) {
	for i, set := range c.flagFields() {
		if *set {
			flags |= 1 << i
		}
	}
	return flags
}

func (c *call) setFlags(flags uint64) {
	for i, set := range c.flagFields() {
		*set = flags&(1<<i) != 0
	}
}

// append encodes the call.
func (c *call) append(b []byte) []byte {
	s := &c.settings
	c.taskRelay, c.keyOwner, c.principal = s.TaskRelay != nil, s.Key.Principal != "", s.Principal != ""
	b = append(b, byte(c.method))
	b = varint.AppendText(b, c.server)
	b = binary.AppendUvarint(b, c.epoch)
	b = binary.AppendVarint(b, int64(c.left))
	b = varint.AppendText(b, c.target)
	b = binary.AppendUvarint(b, c.flags())
	b = binary.AppendVarint(b, int64(s.Timeout))
	b = binary.AppendUvarint(b, c.answerer)
	b = varint.AppendText(b, s.LogLevel)
	b = varint.AppendText(b, s.Key.Key)
	b = varint.AppendText(b, s.ClientName)
	b = varint.AppendBytes(b, s.Meta)
	b = varint.AppendBytes(b, s.Continuation.InputResponses)
	b = varint.AppendBytes(b, s.Continuation.RequestState)
	if c.taskRelay {
		b = binary.AppendVarint(b, int64(s.TaskRelay.TTL))
	}
	if c.keyOwner {
		b = varint.AppendText(b, s.Key.Principal)
	}
	if c.principal {
		b = varint.AppendText(b, s.Principal)
	}
	return append(b, c.args...)
}

// read decodes a call into c, which keeps the memory of the message. If the error is errUnknownMethod,
// the call is of a later version, and its other fields may mean anything.
func (c *call) read(message []byte) error {
	r := varint.Reader{Rest: message}
	s := &c.settings
	c.method, c.server, c.epoch, c.left, c.target = method(r.Byte()), r.Text(), r.Uint(), time.Duration(r.Int()), r.Text()
	c.setFlags(r.Uint())
	s.Timeout, c.answerer = time.Duration(r.Int()), r.Uint()
	s.LogLevel, s.Key.Key, s.ClientName, s.Meta = r.Text(), r.Text(), r.Text(), r.Optional()
	s.Continuation = relay.Continuation{InputResponses: r.Optional(), RequestState: r.Optional()}
	if c.taskRelay {
		s.TaskRelay = &relay.TaskRelay{TTL: time.Duration(r.Int())}
	}
	if c.keyOwner {
		s.Key.Principal = r.Text()
	}
	if c.principal {
		s.Principal = r.Text()
	}
	c.args = r.Rest
	switch {
	case r.Failed || c.method < methodTool:
		return errors.New("a call cannot be read")
	case c.method > methodNotices:
		return errUnknownMethod
	}
	return nil
}

// op returns the Op for an error of the call.
func (c *call) op() string {
	switch c.method {
	case methodTool:
		return "call " + c.target
	case methodRead:
		return "read " + c.server + " " + c.target
	default:
		return "prompt " + c.target
	}
}

// do makes the call.
func (c *call) do(ctx context.Context, to Caller, opts []facade.CallOption) (json.RawMessage, error) {
	unreadable := func(err error) error {
		return &mcpvisor.Error{Server: c.server, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	switch c.method {
	case methodTool:
		return to.CallToolRaw(ctx, c.target, c.args, opts...)
	case methodRead:
		return to.ReadResourceRaw(ctx, c.server, c.target, opts...)
	case methodPrompt:
		var args map[string]string
		if err := json.Unmarshal(c.args, &args); err != nil {
			return nil, unreadable(err)
		}
		return to.GetPromptRaw(ctx, c.target, args, opts...)
	default:
		var r facade.CompletionRequest
		if err := json.Unmarshal(c.args, &r); err != nil {
			return nil, unreadable(err)
		}
		return to.CompleteRaw(ctx, c.server, r, opts...)
	}
}
