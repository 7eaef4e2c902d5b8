package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// response is the result of a request, and what bounds its decoding.
type response struct {
	raw     json.RawMessage
	view    *actors.View
	began   time.Time
	queued  time.Duration // of the time since began: the call's timeout begins after it
	timeout time.Duration // of the call; 0 means the server's
	share   *budget.Share // of Limits.MaxBufferBytes; its maker releases it after decoding
}

// isLarge reports whether the result is measured before it is decoded.
func (r *response) isLarge() bool { return len(r.raw) >= jsonbound.LargeBytes }

// errDecodingOverdue is the cause of a context that ends with the timeouts of its call.
// mcpvisor.ErrTimeout would not do: the context of a caller may end with the ErrTimeout
// of another call.
var errDecodingOverdue = errors.New("the call has timed out")

// decodeContext is ctx with the time that the timeouts of the call have left for
// decoding. If progress has restarted the call's timeout, decoding gets all of it.
func (r *response) decodeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	idle, total := actors.CallTimeouts(r.view.Spec.Timeouts, r.timeout)
	now := time.Now()
	deadline := time.Time{}
	if idle > 0 {
		if deadline = r.began.Add(r.queued + idle); deadline.Before(now) {
			deadline = now.Add(idle)
		}
	}
	if latest := r.began.Add(total); total > 0 && (deadline.IsZero() || latest.Before(deadline)) {
		deadline = latest
	}
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, deadline, errDecodingOverdue)
}

// decodeResult decodes a result and releases its share of the buffer. list and add are
// for [decodeLarge].
func decodeResult[T any](ctx context.Context, r *response, list string, add func(whole, part *T)) (*T, error) {
	defer r.share.Release() // also of a small result: it may have come in a large message
	if r.isLarge() {
		return decodeLarge(ctx, r, list, add)
	}
	v := new(T)
	err := checkResult(r.raw)
	if err == nil {
		err = json.Unmarshal(r.raw, v)
	}
	if err == nil {
		err = checkNoNil(v)
	}
	if err != nil {
		return nil, unreadableResult(err)
	}
	return v, nil
}

// checkResult refuses a result that is not an object, and one that does not complete
// the request. Since 2026-07-28 a result names its type in resultType. An absent one
// means complete; a client must not treat a type that it does not know as complete
// (MCP, basic, results).
func checkResult(raw []byte) error {
	err := jsonscan.EachMember(raw, func(name string, value []byte) error {
		if name == "resultType" && string(value) != `"complete"` && string(value) != "null" {
			return fmt.Errorf("unknown resultType %.40s", value)
		}
		return nil
	})
	if errors.Is(err, jsonscan.ErrNotObject) {
		return errors.New("the result is not a JSON object")
	}
	return err
}

// checkNoNil refuses a list with a null entry: the caller would dereference a nil.
func checkNoNil(result any) error {
	incomplete := func(c mcp.Content) bool {
		r, embedded := c.(*mcp.EmbeddedResource)
		return c == nil || embedded && r.Resource == nil
	}
	found := false
	switch r := result.(type) {
	case *mcp.ReadResourceResult:
		found = slices.Contains(r.Contents, nil)
	case *mcp.GetPromptResult:
		found = slices.ContainsFunc(r.Messages, func(m *mcp.PromptMessage) bool { return m == nil || incomplete(m.Content) })
	case *mcp.CallToolResult:
		found = slices.ContainsFunc(r.Content, incomplete)
	}
	if found {
		return errors.New("an entry of the result is missing")
	}
	return nil
}

// maxResultQuote bounds what an error quotes of a result, in bytes.
const maxResultQuote = 1 << 10

// unreadableResult is the error of a result that cannot be decoded.
func unreadableResult(err error) *mcpvisor.Error {
	if text := err.Error(); len(text) > maxResultQuote {
		err = errors.New(strings.ToValidUTF8(text[:maxResultQuote], "") + " …")
	}
	return &mcpvisor.Error{Kind: mcpvisor.KindProtocol, Outcome: mcpvisor.OutcomeAnswered,
		Cause: fmt.Errorf("the server's result cannot be read: %w", err)}
}
