package facade

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/actors"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/transport"
)

// WithJournal keeps the calls that are made with [WithKey] in a journal, so that they are
// executed at most once and their results are found again after the end of the host. keep says
// what the journal keeps of arguments and results; empty means mcpvisor.JournalKeepAll. The
// caller closes the journal, after the client. Default, and for a nil journal: none.
func WithJournal(journal mcpvisor.Journal, keep mcpvisor.JournalKeep) Option {
	return func(o *options) { o.journal = journalOption{journal, keep} }
}

// journalOption is the journal of a client; its store is nil without one.
type journalOption struct {
	store mcpvisor.Journal
	keep  mcpvisor.JournalKeep
}

// check returns what is wrong with the option, and sets its default.
func (o *journalOption) check() error {
	switch o.keep {
	case "":
		o.keep = mcpvisor.JournalKeepAll
	case mcpvisor.JournalKeepAll, mcpvisor.JournalKeepDigests, mcpvisor.JournalKeepNothing:
	default:
		return fmt.Errorf("WithJournal: keep is %q; it is one of %q, %q and %q", o.keep,
			mcpvisor.JournalKeepAll, mcpvisor.JournalKeepDigests, mcpvisor.JournalKeepNothing)
	}
	return nil
}

// WithKey names a tool call so that it is executed at most once, even if the host ends and
// starts again. The call is written to the journal of [WithJournal] before anything is sent. A
// call whose key the journal knows is not sent: it returns the result of the first call, waits
// for the task of that call, or fails with mcpvisor.ErrInterrupted if the host ended before the
// answer came. An error is kept like a result if the server may have executed the call. A call
// of which nothing was sent is forgotten.
//
// A key is 1 to 256 bytes of printable UTF-8. Operators see it, so it must hold no secret. It
// belongs to one tool and one set of arguments. A key of another form, a key of
// another call, and a client without a journal fail the call with mcpvisor.ErrInvalid; a journal
// that cannot be read or written fails it with mcpvisor.ErrJournal. Calls with one key wait for each other. When the context of the call ends, its task continues, and a later call with the key
// finds it. A server of 2025-11-25 is asked for a task if the tool supports that.
func WithKey(key string) CallOption { return func(o *callOptions) { o.key, o.hasKey = key, true } }

// JournalEntries returns what the journal knows of the calls with a key, the oldest first,
// without arguments and results; none without [WithJournal].
//
// Errors: ErrJournal.
func (c *Client) JournalEntries(ctx context.Context) ([]mcpvisor.JournalEntry, error) {
	if c.opts.journal.store == nil {
		return nil, nil
	}
	all, err := c.opts.journal.store.Entries(ctx)
	if err != nil {
		return nil, withOp(journalError(ctx, err), "read the journal")
	}
	return all, nil
}

// ResumeTask returns the call that was made with a key, perhaps by another host, as a handle:
// its Wait returns the result that the journal has, or follows the task.
//
// Errors: ErrInvalid (the journal does not know the key), ErrInterrupted, ErrJournal,
// ErrUnknownServer, and the error in which the call has ended.
func (c *Client) ResumeTask(ctx context.Context, key string, opts ...CallOption) (*Task, error) {
	t, err := c.resumeTask(ctx, key, opts)
	return t, withOp(err, "resume "+key)
}

func (c *Client) resumeTask(ctx context.Context, key string, opts []CallOption) (*Task, error) {
	k, err := c.lockKey(ctx, key)
	if err != nil {
		return nil, err
	}
	defer k.release()
	if !k.known {
		return nil, invalidRequest(fmt.Errorf("the journal does not know the key %q: it was never used, or has expired", key))
	}
	t := &Task{c: c, tool: mcpvisor.Qualify(k.entry.Server, k.entry.Tool), turn: make(chan struct{}, 1), resumed: true}
	t.turn <- struct{}{}
	if k.entry.State != mcpvisor.JournalTask {
		raw, err := k.answer()
		if err != nil {
			return nil, err
		}
		t.answer.raw = raw
		t.result, err = decodeWholeToolResult(ctx, raw)
		return t, err
	}
	o := c.callOptions(opts)
	o.detached = true
	if t.follow, err = k.resume(o); err != nil {
		return nil, err
	}
	return t, nil
}

// keyLocks are those of a client and of its copies, which have one journal.
type keyLocks struct {
	calls   keys // that are made now
	endings keys // of which a task has ended, and that the journal is told of
}

// keys are the keys that are in use. The zero value is empty. Safe for concurrent use.
type keys struct {
	mu   sync.Mutex
	open map[string]chan struct{} // closed when the call has ended
}

// lock waits until no other call with the key is made.
func (k *keys) lock(ctx context.Context, key string) error {
	for {
		k.mu.Lock()
		other := k.open[key]
		if other == nil {
			if k.open == nil {
				k.open = map[string]chan struct{}{}
			}
			k.open[key] = make(chan struct{})
			k.mu.Unlock()
			return nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (k *keys) unlock(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.open[key])
	delete(k.open, key)
}

// A keyedCall is a call with a key. Until it is released, no other call with that key is made.
// The goroutine of the call owns it; a follower may use it after the release.
type keyedCall struct {
	c     *Client
	known bool // the journal knew the key
	entry mcpvisor.JournalEntry
	args  json.RawMessage // of this call
	// forgetting: the entry is being removed in the background, which releases the call.
	forgetting bool
}

// lockKey waits for other calls with the key, and reads what the journal knows of it.
func (c *Client) lockKey(ctx context.Context, key string) (*keyedCall, error) {
	if c.opts.journal.store == nil {
		return nil, invalidRequest(errors.New("a call with a key needs a client with a journal; make it with facade.WithJournal"))
	}
	if err := checkKey(key); err != nil {
		return nil, invalidRequest(err)
	}
	if err := c.keys.calls.lock(ctx, key); err != nil {
		return nil, &mcpvisor.Error{Kind: mcpvisor.KindCanceled, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	}
	k := &keyedCall{c: c}
	var err error
	if k.entry, k.known, err = c.opts.journal.store.Get(ctx, key); err != nil {
		c.keys.calls.unlock(key)
		return nil, journalError(ctx, err)
	}
	k.entry.Key = key
	return k, nil
}

// openKey begins a call with a key.
func (c *Client) openKey(ctx context.Context, key string, v *actors.View, tool string, args toolArguments) (*keyedCall, error) {
	raw, err := args.append(nil)
	if err != nil {
		return nil, err
	}
	k, err := c.lockKey(ctx, key)
	if err != nil {
		return nil, err
	}
	k.args = raw
	digest := ""
	if c.opts.journal.keep != mcpvisor.JournalKeepNothing {
		digest = digestArguments(raw)
	}
	if !k.known {
		k.entry.Server, k.entry.Tool, k.entry.Digest = v.Name, strings.Clone(tool), digest
		return k, nil
	}
	if e := &k.entry; e.Server != v.Name || e.Tool != tool || e.Digest != "" && digest != "" && e.Digest != digest {
		k.release()
		what := "with other arguments"
		if e.Server != v.Name || e.Tool != tool {
			what = "of " + mcpvisor.Qualify(e.Server, e.Tool)
		}
		return nil, &mcpvisor.Error{Server: v.Name, Gen: v.Gen, Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("the key %q belongs to a call %s, made at %s", key, what, e.Began.Format(time.RFC3339)), Hint: "use another key"}
	}
	return k, nil
}

// release lets other calls with the key continue.
func (k *keyedCall) release() {
	if !k.forgetting {
		k.c.keys.calls.unlock(k.entry.Key)
	}
}

// again answers a call whose key the journal knows. Nothing is sent, except for a task.
func (k *keyedCall) again(ctx context.Context, q *tracked, v *actors.View, o *callOptions, share *budget.Share) (response, error) {
	if k.entry.State != mcpvisor.JournalTask {
		q.replayed = true
		raw, err := k.answer()
		return response{raw: raw, view: v, began: time.Now(), timeout: o.timeout, share: share}, err
	}
	f, err := k.resume(*o)
	if err != nil || o.detached {
		q.replayed = true
		return response{task: f}, err
	}
	_, listed := v.Catalog.Tool(k.entry.Tool)
	ctx = k.c.begin(ctx, q, v, "tools/call", k.entry.Tool, listed)
	return f.follow(ctx, q, share)
}

// answer returns the result of a call that has ended, or the error in which it has.
func (k *keyedCall) answer() (json.RawMessage, error) {
	e := &k.entry
	made := e.Began.Format(time.RFC3339)
	failed := &mcpvisor.Error{Server: e.Server, Hint: "another key makes a new call"}
	switch {
	case e.State != mcpvisor.JournalEnded:
		failed.Kind, failed.Outcome = mcpvisor.KindInterrupted, mcpvisor.OutcomeUnknown
		failed.Cause = fmt.Errorf("the call with the key %q was sent at %s, and the journal has no answer: the host ended before it came, or could not write it down", e.Key, made)
	case e.Error != nil:
		failed.Kind, failed.Outcome = e.Error.Kind, e.Error.Outcome
		cause := errors.New(e.Error.Text)
		if e.Error.Kind == mcpvisor.KindRPC {
			cause = &sdkrpc.Error{Code: e.Error.Code, Message: e.Error.Text, Data: e.Error.Data}
		}
		failed.Cause = fmt.Errorf("%w (of the call with the key %q, made at %s)", cause, e.Key, made)
	case len(e.Result) == 0:
		failed.Kind, failed.Outcome = mcpvisor.KindJournal, mcpvisor.OutcomeAnswered
		failed.Cause = fmt.Errorf("the call with the key %q was made at %s and answered, and the journal has not kept its result of %d bytes", e.Key, made, e.ResultBytes)
	default:
		return e.Result, nil
	}
	return nil, failed
}

// resume returns a follower of the task that the server has made of the call.
func (k *keyedCall) resume(o callOptions) (*follower, error) {
	s := k.c.rt.Snapshot()
	v := s.Server(k.entry.Server)
	if v == nil {
		return nil, unknownServer(s, k.entry.Server)
	}
	now := time.Now()
	o.keyed, o.key = k, k.entry.Key
	f := &follower{c: k.c, o: o, server: v.Name, tool: k.entry.Tool, began: k.entry.Began, since: now, answered: now, view: v, lost: true, resumed: true}
	f.note(task.Task{ID: k.entry.TaskID, Status: task.Working}, now)
	return f, nil
}

// send makes the call: it is written down before it is sent, and so is its answer before it is
// returned.
func (k *keyedCall) send(ctx context.Context, q *tracked, v *actors.View, r *transport.Request, o *callOptions) (response, error) {
	k.entry.Began = time.Now()
	k.entry.State = mcpvisor.JournalSent
	if k.c.opts.journal.keep == mcpvisor.JournalKeepAll {
		k.entry.Arguments = v.Redact(k.args)
	}
	k.entry.Updated = k.entry.Began
	if err := k.c.opts.journal.store.Put(ctx, k.entry); err != nil {
		k.forgetting = true // the entry may be stored: until it is gone, the key stays taken
		go func() {
			k.forget()
			k.c.keys.calls.unlock(k.entry.Key)
		}()
		return response{}, journalError(ctx, err)
	}
	got, err := k.c.sendWhenReady(ctx, q, v, r, o)
	switch {
	case k.entry.TaskID != "": // the follower writes the end
	case err != nil && asError(err).Outcome == mcpvisor.OutcomeNotSent:
		k.forget()
	default:
		k.ended(q.view, got.raw, err)
	}
	return got, err
}

// forget removes the entry.
func (k *keyedCall) forget() {
	k.write(func(ctx context.Context) error { return k.c.opts.journal.store.Delete(ctx, k.entry.Key) })
}

// becameTask notes that the server has made a task of the call.
func (k *keyedCall) becameTask(id string) {
	k.entry.State, k.entry.TaskID = mcpvisor.JournalTask, id
	k.put()
}

// maxJournalErrorBytes bounds the text of an error in the journal, and its data.
const maxJournalErrorBytes = 4 << 10

// taskEnded notes the end of a call of which the server has made a task. The error is without the
// id of the task. Of several handles on one task the first one counts: if err is set, and another
// one has got the result, known is true.
func (k *keyedCall) taskEnded(v *actors.View, result json.RawMessage, err error) (earlier json.RawMessage, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	defer cancel()
	if k.c.keys.endings.lock(ctx, k.entry.Key) == nil {
		defer k.c.keys.endings.unlock(k.entry.Key)
	}
	stored, found, getErr := k.c.opts.journal.store.Get(ctx, k.entry.Key)
	if getErr == nil && found && stored.State == mcpvisor.JournalEnded {
		return stored.Result, err != nil && stored.Error == nil && len(stored.Result) > 0
	}
	k.ended(v, result, err)
	return nil, false
}

// ended notes the end of the call.
func (k *keyedCall) ended(v *actors.View, result json.RawMessage, err error) {
	entry := &k.entry
	entry.State, entry.TaskID = mcpvisor.JournalEnded, ""
	if err != nil {
		e := asError(err)
		entry.Error = &mcpvisor.JournalError{Kind: e.Kind, Outcome: e.Outcome}
		var rpc *sdkrpc.Error
		switch {
		case errors.As(e.Cause, &rpc) && e.Kind == mcpvisor.KindRPC:
			entry.Error.Code, entry.Error.Text = rpc.Code, rpc.Message
			if len(rpc.Data) <= maxJournalErrorBytes {
				entry.Error.Data = bytes.Clone(rpc.Data)
			}
		case e.Cause != nil:
			entry.Error.Text = e.Cause.Error()
		}
		entry.Error.Text = display.Shorten(display.Line(entry.Error.Text), maxJournalErrorBytes)
		k.put()
		return
	}
	entry.ResultBytes = len(result)
	switch k.c.opts.journal.keep {
	case mcpvisor.JournalKeepAll:
		entry.Result = v.Redact(result)
	case mcpvisor.JournalKeepDigests:
		entry.ResultDigest = digest(result)
	case mcpvisor.JournalKeepNothing:
	}
	k.put()
	entry.Result = nil // another handle of the task may have the entry
}

// put stores the entry.
func (k *keyedCall) put() {
	k.entry.Updated = time.Now()
	k.write(func(ctx context.Context) error { return k.c.opts.journal.store.Put(ctx, k.entry) })
}

// journalTimeout bounds a write to the journal after a call was sent.
const journalTimeout = 10 * time.Second

// write changes the journal after the call was sent. An error does not cost the caller the
// answer: the journal then knows less, so the key sends nothing, either.
func (k *keyedCall) write(change func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	defer cancel()
	if err := change(ctx); err != nil {
		k.c.opts.logger.Error().Err(err).Str("server", k.entry.Server).Str("tool", k.entry.Tool).Str("key", k.entry.Key).
			Msg("the journal could not note how far a call came")
	}
}

// journalError is the error of a journal that cannot be used; nothing was sent.
func journalError(ctx context.Context, err error) *mcpvisor.Error {
	e := &mcpvisor.Error{Kind: mcpvisor.KindJournal, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	if ctx.Err() != nil {
		e.Kind, e.Cause = mcpvisor.KindCanceled, context.Cause(ctx)
	}
	return e
}

// digestArguments is a digest of arguments that is equal for equal values.
func digestArguments(raw json.RawMessage) string {
	return digest(canonical.Append(nil, raw))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// maxKeyBytes is the length of the longest key of a call, in bytes.
const maxKeyBytes = 256

// checkKey returns why a text cannot be the key of a call; nil if it can. See [WithKey].
func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("the key is empty; name the call, as in %q", "order-4711")
	case len(key) > maxKeyBytes:
		return fmt.Errorf("the key has %d bytes; at most %d are accepted: use a digest of it", len(key), maxKeyBytes)
	case !utf8.ValidString(key):
		return fmt.Errorf("the key %.40q is not UTF-8", key)
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("the key %.40q has the character %q, which cannot be shown", key, r)
		}
	}
	return nil
}
