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
	if _, guarded := o.store.(guardedJournal); !guarded && o.store != nil {
		o.store = guardedJournal{o.store}
	}
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
func WithKey(key string) CallOption { return relayFunctions{}.WithKeyOf("", key) }

// JournalEntries returns what the journal knows of the calls with a key. With keys, it returns the entries of those that
// the journal knows, in their order; without, all entries, the oldest first, without arguments and results. There are none
// without [WithJournal].
//
// Errors: ErrJournal.
func (c *Client) JournalEntries(ctx context.Context, keys ...mcpvisor.JournalKey) (entries []mcpvisor.JournalEntry, err error) {
	store := c.opts.journal.store
	if store == nil {
		return nil, nil
	}
	if len(keys) == 0 {
		entries, err = store.Entries(ctx)
	}
	for _, key := range keys {
		var e mcpvisor.JournalEntry
		var known bool
		if e, known, err = store.Get(ctx, key); err != nil {
			break
		}
		if known {
			entries = append(entries, e)
		}
	}
	if err != nil {
		return nil, withOp(journalError(ctx, err), "read the journal")
	}
	return entries, nil
}

// ResumeTask returns the call that was made with a key, perhaps by another host, as a handle.
// Its Wait returns the result that the journal has, or follows the task.
//
// Errors: ErrInvalid (the journal does not know the key), ErrInterrupted, ErrJournal,
// ErrUnknownServer (also while another server has the name of the one that has the task), and the error in
// which the call has ended.
func (c *Client) ResumeTask(ctx context.Context, key mcpvisor.JournalKey, opts ...CallOption) (*Task, error) {
	t, err := c.resumeTask(ctx, key, opts)
	return t, withOp(err, "resume "+key.Key)
}

func (c *Client) resumeTask(ctx context.Context, key mcpvisor.JournalKey, opts []CallOption) (*Task, error) {
	k, err := c.lockKey(ctx, key)
	if err != nil {
		return nil, err
	}
	defer k.release()
	if !k.known {
		return nil, unknownKey(key)
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
	o := *c.callOptions(opts)
	o.detached = true
	if t.follow, err = k.resume(o); err != nil {
		return nil, err
	}
	return t, nil
}

// unknownKey is the error about a key that the journal does not know.
func unknownKey(key mcpvisor.JournalKey) error {
	return invalidRequest(fmt.Errorf("the journal does not know the key %q: it was never used, or has expired", key.Key))
}

// A keyedCall is a call with a key. Until it is released, no other call with that key is made.
// The goroutine of the call owns it; a follower may use it after the release.
type keyedCall struct {
	c     *Client
	known bool // the journal knew the key
	entry mcpvisor.JournalEntry
	args  json.RawMessage // of this call
	// unlock ends the lock of the key in the store; nil: the call was released.
	unlock func()
	last   *journalWrite // the change of the journal that was begun last; nil: none
}

// lockKey waits for other calls with the key, and reads what the journal knows of it.
func (c *Client) lockKey(ctx context.Context, key mcpvisor.JournalKey) (*keyedCall, error) {
	if c.opts.journal.store == nil {
		return nil, invalidRequest(errors.New("a call with a key needs a client with a journal; make it with facade.WithJournal"))
	}
	if err := checkKey(key.Key); err != nil {
		return nil, invalidRequest(err)
	}
	unlock, err := c.opts.journal.store.Lock(ctx, key)
	if err != nil {
		return nil, journalError(ctx, err)
	}
	k := &keyedCall{c: c, unlock: unlock}
	if k.entry, k.known, err = c.opts.journal.store.Get(ctx, key); err != nil {
		unlock()
		return nil, journalError(ctx, err)
	}
	if k.entry.State == mcpvisor.JournalNotRun { // the next call is a new one
		k.known, k.entry = false, mcpvisor.JournalEntry{Resolved: k.entry.Resolved}
	}
	c.writes.add()
	k.entry.Principal, k.entry.Key = key.Principal, key.Key
	return k, nil
}

// beginKeyed begins a call with a key, and answers it if it was made before: then it is not sent again. If the server is
// not registered, missing says so, and is the error of a call that was not made before.
func (c *Client) beginKeyed(ctx context.Context, q *tracked, v *actors.View, tool, name string, args toolArguments, o *callOptions, share *budget.Share, missing error) (answered bool, err error) {
	if missing != nil {
		var ok bool
		if v, name, ok = unregistered(tool, missing); !ok {
			return false, missing
		}
	}
	k, err := c.openKey(ctx, o.Key, v.Name, name, args)
	if err != nil {
		q.replayed = missing == nil
		return false, err
	}
	q.keyed, o.keyed = k, k
	if missing != nil && (!k.known || k.entry.State == mcpvisor.JournalTask) {
		return false, missing
	}
	if !k.known {
		return false, nil
	}
	return true, k.again(ctx, q, v, o, share)
}

// unregistered stands in for the server of a tool, if err says that none is registered.
func unregistered(tool string, err error) (v *actors.View, name string, ok bool) {
	if !errors.Is(err, mcpvisor.ErrUnknownServer) && !errors.Is(err, mcpvisor.ErrUnknownTool) {
		return nil, "", false
	}
	server, name, ok := mcpvisor.SplitName(tool)
	if !ok {
		server, name, ok = mcpvisor.SplitAlias(tool)
	}
	return &actors.View{Name: server, Spec: &mcpvisor.ServerSpec{Name: server}}, name, ok
}

// openKey begins a call with a key.
func (c *Client) openKey(ctx context.Context, key mcpvisor.JournalKey, server, tool string, args toolArguments) (*keyedCall, error) {
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
		k.entry.Server, k.entry.Tool, k.entry.Digest = server, strings.Clone(tool), digest
		return k, nil
	}
	if e := &k.entry; e.Server != server || e.Tool != tool || e.Digest != "" && digest != "" && e.Digest != digest {
		k.release()
		what := "with other arguments"
		if e.Server != server || e.Tool != tool {
			what = "of " + mcpvisor.Qualify(e.Server, e.Tool)
		}
		return nil, &mcpvisor.Error{Server: server, Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent,
			Cause: fmt.Errorf("the key %q belongs to a call %s, made at %s", key.Key, what, e.Began.Format(time.RFC3339)), Hint: "repeat that call; with another key this one is executed, whether it was before or not"}
	}
	return k, nil
}

// release lets other calls with the key continue, as soon as the journal knows what became of this one.
func (k *keyedCall) release() {
	if k == nil || k.unlock == nil {
		return
	}
	unlock, last := k.unlock, k.last
	k.unlock = nil
	end := func() {
		unlock()
		k.c.writes.done()
	}
	if last == nil || last.ended() {
		end()
		return
	}
	go func() {
		<-last.done
		end()
	}()
}

// again answers a call whose key the journal knows. Nothing is sent, except for a task.
func (k *keyedCall) again(ctx context.Context, q *tracked, v *actors.View, o *callOptions, share *budget.Share) error {
	if k.entry.State != mcpvisor.JournalTask {
		q.replayed = true
		raw, err := k.answer()
		q.response = response{raw: raw, view: v, began: time.Now(), timeout: o.Timeout, share: share}
		return err
	}
	f, err := k.resume(*o)
	if err != nil || o.detached {
		if err == nil {
			k.c.openTasks.add(f)
		}
		q.replayed, q.response = true, response{task: f}
		return err
	}
	_, listed := v.Catalog.Tool(k.entry.Tool)
	ctx = k.c.begin(ctx, q, v, "tools/call", k.entry.Tool, listed)
	return f.follow(ctx, q, share)
}

// answer returns the result of a call that has ended, or the error in which it has.
func (k *keyedCall) answer() (json.RawMessage, error) {
	e := &k.entry
	made := e.Began.Format(time.RFC3339)
	failed := &mcpvisor.Error{Server: e.Server, Hint: hintAgain}
	switch {
	case e.State != mcpvisor.JournalEnded:
		failed.Kind, failed.Outcome = mcpvisor.ErrInterrupted, mcpvisor.OutcomeUnknown
		failed.Cause = fmt.Errorf("the call with the key %q was sent at %s, and the journal has no answer: the host ended before it came, or could not write it down", e.Key, made)
	case e.Error != nil:
		failed.Kind, failed.Outcome = e.Error.Kind, e.Error.Outcome
		cause := errors.New(e.Error.Text)
		if e.Error.Kind == mcpvisor.ErrRPC {
			cause = &sdkrpc.Error{Code: e.Error.Code, Message: e.Error.Text, Data: e.Error.Data}
		}
		failed.Cause = fmt.Errorf("%w (of the call with the key %q, made at %s)", cause, e.Key, made)
	case len(e.Result) == 0:
		failed.Kind, failed.Outcome = mcpvisor.ErrJournal, mcpvisor.OutcomeAnswered
		failed.Cause = fmt.Errorf("the call with the key %q was made at %s and answered, and the journal has not kept its result of %d bytes", e.Key, made, e.ResultBytes)
	default:
		return e.Result, nil
	}
	if failed.Outcome == mcpvisor.OutcomeUnknown {
		failed.Hint = "find out whether the server has executed it, and say so with Client.ResolveKey; " + hintAgain
	}
	return nil, failed
}

// hintAgain says what another key does.
const hintAgain = "another key executes it again"

// resume returns a follower of the task that the server has made of the call.
func (k *keyedCall) resume(o callOptions) (*follower, error) {
	s := k.c.rt.Snapshot()
	v := s.Server(k.entry.Server)
	if v == nil {
		return nil, unknownServer(s, k.entry.Server)
	}
	now := time.Now()
	o.keyed, o.Key = k, k.entry.JournalKey()
	f := &follower{c: k.c, o: o, server: v.Name, tool: k.entry.Tool, began: k.entry.Began, since: now, answered: now, view: v, lost: true, resumed: true,
		origin: &taskOrigin{k.entry.Incarnation, k.entry.TaskCreated, k.entry.Target}}
	if err := asErrorOrNil(f.checkTarget(v)); err != nil {
		err.Outcome = mcpvisor.OutcomeUnknown // the call was sent
		return nil, err
	}
	f.note(task.Task{ID: k.entry.TaskID, Status: task.Working}, now)
	return f, nil
}

// send makes the call: it is written down before it is sent, and so is its answer before it is
// returned.
func (k *keyedCall) send(ctx context.Context, q *tracked, v *actors.View, r *transport.Request, o *callOptions) error {
	k.entry.Began = time.Now()
	k.entry.State = mcpvisor.JournalSent
	if k.c.opts.journal.keep == mcpvisor.JournalKeepAll {
		k.entry.Arguments = v.Redact(k.args)
	}
	k.entry.Updated = k.entry.Began
	e := k.entry
	w := k.begin(&mcpvisor.JournalEntry{}, func(ctx context.Context, store mcpvisor.Journal) error { return store.Put(ctx, e) })
	var err error
	select {
	case <-w.done:
		err = w.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		if !errors.Is(err, mcpvisor.ErrJournalFull) { // the entry may be stored: until it is gone, the key stays locked
			k.beginForget()
		}
		return journalError(ctx, err)
	}
	if o.guarded != nil { // the store may have taken long
		v, _, err = k.c.permit(ctx, v, r.Target, o.guarded)
	}
	if err == nil {
		err = k.c.sendWhenReady(ctx, q, v, r, o)
	}
	switch {
	case k.entry.TaskID != "": // the follower writes the end
	case err != nil && asError(err).Outcome == mcpvisor.OutcomeNotSent:
		k.beginForget().wait()
	default:
		k.writeEnd(q.view, q.response.raw, err)
	}
	return err
}

// beginForget removes the entry.
func (k *keyedCall) beginForget() *journalWrite {
	return k.begin(&mcpvisor.JournalEntry{}, func(ctx context.Context, store mcpvisor.Journal) error {
		return k.note(store.Delete(ctx, k.entry.JournalKey()))
	})
}

// becameTask notes that the server has made a task of the call.
func (k *keyedCall) becameTask(id string, from *taskOrigin) {
	k.entry.State, k.entry.TaskID = mcpvisor.JournalTask, id
	k.entry.TaskCreated, k.entry.Target, k.entry.Incarnation = from.created, from.target, from.incarnation
	k.beginPut().wait()
}

// maxJournalErrorBytes bounds the text of an error in the journal, and its data.
const maxJournalErrorBytes = 4 << 10

// taskEnded notes the end of a call of which the server has made a task. The error is without the
// id of the task. Of several handles on one task the first one counts: if err is set, and another
// one has got the result, known is true. If the key belongs to a later call by now, nothing is noted.
func (k *keyedCall) taskEnded(v *actors.View, result json.RawMessage, err error) (earlier json.RawMessage, known bool) {
	if k.unlock != nil { // no other handle can have told it
		k.writeEnd(v, result, err)
		return nil, false
	}
	first := make(chan json.RawMessage, 1) // has the result of another handle
	own := &keyedCall{c: k.c, entry: k.entry}
	own.setEnd(v, result, err)
	e := own.entry
	e.Updated = time.Now()
	w := k.begin(&e, func(ctx context.Context, store mcpvisor.Journal) error {
		unlock, lockErr := store.Lock(ctx, e.JournalKey())
		if lockErr != nil {
			return k.note(lockErr)
		}
		defer unlock()
		stored, found, getErr := store.Get(ctx, e.JournalKey())
		if getErr == nil && found && (stored.State == mcpvisor.JournalEnded || !stored.Began.Equal(e.Began)) {
			if stored.Error == nil && stored.Began.Equal(e.Began) {
				first <- stored.Result
			}
			return nil
		}
		return k.note(store.Put(ctx, e))
	})
	if !w.wait() {
		return nil, false
	}
	select {
	case earlier = <-first:
	default:
	}
	return earlier, err != nil && len(earlier) > 0
}

// writeEnd writes the end of the call into the journal. It waits for that for journalPatience at most.
func (k *keyedCall) writeEnd(v *actors.View, result json.RawMessage, err error) {
	k.setEnd(v, result, err)
	w := k.beginPut()
	k.entry.Result = nil // the write has it
	w.wait()
}

// setEnd makes the entry that of a call that has ended.
func (k *keyedCall) setEnd(v *actors.View, result json.RawMessage, err error) {
	entry := &k.entry
	entry.State, entry.TaskID = mcpvisor.JournalEnded, ""
	entry.TaskCreated, entry.Target, entry.Incarnation = time.Time{}, "", ""
	if err != nil {
		e := asError(err)
		entry.Error = &mcpvisor.JournalError{Kind: e.Kind, Outcome: e.Outcome}
		var rpc *sdkrpc.Error
		switch {
		case errors.As(e.Cause, &rpc) && e.Kind == mcpvisor.ErrRPC:
			entry.Error.Code, entry.Error.Text = rpc.Code, rpc.Message
			if len(rpc.Data) <= maxJournalErrorBytes {
				entry.Error.Data = bytes.Clone(rpc.Data)
			}
		case e.Cause != nil:
			entry.Error.Text = e.Cause.Error()
		}
		entry.Error.Text = display.Shorten(display.Line(entry.Error.Text), maxJournalErrorBytes)
	} else {
		k.setResult(v, result)
	}
}

// setResult sets what the journal keeps of a result, without the secrets of the server; v may be nil.
func (k *keyedCall) setResult(v *actors.View, result json.RawMessage) {
	entry := &k.entry
	entry.State, entry.ResultBytes = mcpvisor.JournalEnded, len(result)
	switch k.c.opts.journal.keep {
	case mcpvisor.JournalKeepAll:
		if v != nil {
			result = v.Redact(result)
		}
		// A result that is not an object after the redaction could not be returned, so it is not kept.
		if len(result) > 0 && result[0] == '{' {
			entry.Result = result
		}
	case mcpvisor.JournalKeepDigests:
		entry.ResultDigest = digest(result)
	case mcpvisor.JournalKeepNothing:
	}
}

// journalError is the error of a journal that cannot be used; nothing was sent.
func journalError(ctx context.Context, err error) *mcpvisor.Error {
	e := &mcpvisor.Error{Kind: mcpvisor.ErrJournal, Outcome: mcpvisor.OutcomeNotSent, Cause: err}
	if ctx.Err() != nil {
		e.Kind, e.Cause = mcpvisor.ErrCanceled, context.Cause(ctx)
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
