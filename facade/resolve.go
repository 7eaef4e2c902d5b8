package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
)

// KeyResolution says what became of a call with a key whose outcome the journal does not know. Either
// NotRun or Result is set.
type KeyResolution struct {
	// Seen is the Updated of the entry that this is about. An entry that was written since then is not changed.
	Seen time.Time
	// By names who has found out, for the journal and the log; at most 256 bytes of one line. Required.
	By string
	// NotRun: the server has not executed the call. The next call with the key is made.
	NotRun bool
	// Result is the result of the call, the JSON of an mcp.CallToolResult. The next call with the key
	// returns it, if the journal keeps results.
	Result json.RawMessage
}

// ResolveKey ends the doubt about a call with a key that failed with ErrInterrupted, or whose outcome is
// unknown for another reason: each further call with the key would fail in the same way. The host calls it
// for an operator who has looked at what the server did. The entry and the log name the operator and the time.
//
// Errors: ErrInvalid (the journal does not know the key, a call with it is being made or its task is followed, the entry
// was written after r.Seen, or the outcome is known), ErrJournal, ErrCanceled.
func (c *Client) ResolveKey(ctx context.Context, key mcpvisor.JournalKey, r KeyResolution) error {
	return withOp(c.resolveKey(ctx, key, r), "resolve "+key.Key)
}

// resolveWait is how long ResolveKey waits for a call with the key before it takes it for open.
const resolveWait = time.Second

// maxResolverBytes is the length of the longest KeyResolution.By, in bytes.
const maxResolverBytes = 256

func (c *Client) resolveKey(ctx context.Context, key mcpvisor.JournalKey, r KeyResolution) error {
	switch by := display.Line(r.By); {
	case by == "" || by != r.By || len(by) > maxResolverBytes:
		return invalidRequest(fmt.Errorf("By is not one line of 1 to %d bytes; name who resolves the key", maxResolverBytes))
	case r.NotRun == (len(r.Result) > 0):
		return invalidRequest(errors.New("state either that the call was not executed, or its result"))
	case !r.NotRun:
		if _, err := decodeWholeToolResult(ctx, r.Result); err != nil {
			return invalidRequest(fmt.Errorf("the result is not that of a tool: %w", err))
		}
	}
	wait, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	k, err := c.lockKey(wait, key)
	switch {
	case err != nil && wait.Err() != nil && ctx.Err() == nil:
		return invalidRequest(errOpenKey)
	case err != nil:
		return err
	}
	defer k.release()
	e := &k.entry
	switch {
	case !k.known:
		return unknownKey(key)
	case e.Open:
		return invalidRequest(errOpenKey)
	case !e.Updated.Equal(r.Seen):
		return invalidRequest(fmt.Errorf("the entry was written at %s, and not at %s: look at it again", e.Updated.Format(time.RFC3339Nano), r.Seen.Format(time.RFC3339Nano)))
	case e.State == mcpvisor.JournalEnded && (e.Error == nil && (len(e.Result) > 0 || r.NotRun) || e.Error != nil && e.Error.Outcome != mcpvisor.OutcomeUnknown):
		return invalidRequest(errors.New("the server has answered the call, so its outcome is known"))
	}
	now := time.Now()
	e.Resolved = &mcpvisor.JournalResolution{By: r.By, At: now.Round(0)}
	e.State, e.TaskID, e.Error, e.Updated = mcpvisor.JournalNotRun, "", nil, now
	if !r.NotRun {
		k.setResult(c.rt.Snapshot().Server(e.Server), r.Result)
	}
	entry := *e
	w := k.begin(&mcpvisor.JournalEntry{}, func(ctx context.Context, store mcpvisor.Journal) error { return store.Put(ctx, entry) })
	select { // the key stays locked until the entry is written
	case <-w.done:
		err = w.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return journalError(ctx, err)
	}
	c.opts.logger.Warn().Str("server", e.Server).Str("tool", e.Tool).Str("key", e.Key).Str("principal", e.Principal).
		Str("by", r.By).Bool("executed", !r.NotRun).Msg("the outcome of a call with a key was stated")
	return nil
}

var errOpenKey = errors.New("a call with the key is being made, or its task is followed: wait for its end")
