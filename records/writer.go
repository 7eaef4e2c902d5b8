package records

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/monitor"
)

// Writer appends records to a directory. Its methods are safe for concurrent use, and do not wait for the disk unless
// Options.WhenFull is FullBlock. Make it with [Open].
type Writer struct {
	dir     string
	options Options
	unlock  func()
	wake    chan struct{} // a record was added, or the writer is closing
	ended   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	room    *sync.Cond // of mu: the queue was emptied
	queue   []entry    // guarded by mu
	queued  int        // guarded by mu: bytes of what is in queue
	dropped uint64     // guarded by mu: since the last gap record
	// tasks are calls that continue, by EndedCall.Task; guarded by mu.
	tasks   map[string]monitor.EndedCall
	closing bool  // guarded by mu
	stats   Stats // guarded by mu
	err     error // guarded by mu: of Close

	// The fields below belong to the goroutine, once it runs.

	file     *os.File
	files    []segment // the last one is file; its bytes are up to date
	chain    chain     // of what is on disk
	servers  conditions
	anchored uint64    // number of the record in the anchor
	at       time.Time // of the anchor
	reserved int64     // bytes below the bound that only Close may use
	spare    []entry   // becomes the next queue; empty
	retained []entry   // taken from the queue, and not written yet
	buffer   []byte
}

// entry is a record that is not on disk, and what masks the secrets in it; nil for none.
type entry struct {
	Record
	mask func(string) string
}

// Call adds a call that has ended. It is a function for facade.WithEndedCalls.
func (w *Writer) Call(call monitor.EndedCall) {
	r := Record{Time: time.Now(), Kind: KindCall, Server: call.Server, Epoch: call.Epoch, Method: call.Method, Target: call.Target, Client: call.Client,
		Principal: call.Principal, Outcome: call.Outcome, ErrorKind: call.Kind, ToolError: call.ToolError, Took: call.Took,
		ResultBytes: call.ResultBytes, Text: call.Error, Arguments: call.Arguments}
	if r.Outcome == "" {
		r.Outcome = mcpvisor.OutcomeAnswered
	}
	if call.Task != "" && !w.task(&r, call) {
		return
	}
	w.Add(r)
}

// maxTasks bounds the calls that a writer remembers because they continue as tasks: their callers may never ask again.
const maxTasks = 4096

// task completes the record of a call that continues as a task, or of the end of one. It reports false for an end that is known.
func (w *Writer) task(r *Record, call monitor.EndedCall) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if call.Method == "tools/call" {
		r.Text = "it continues as a task, whose end is a call of tasks/result"
		call.Arguments = nil
		w.rememberLocked(call.Task, call)
		return true
	}
	made, known := w.tasks[call.Task]
	if made.Task != "" {
		r.Target, r.Client, r.Principal, r.Took = made.Target, made.Client, made.Principal, r.Time.Sub(made.Began)
		delete(w.tasks, call.Task)
	} else if known || call.Began.IsZero() {
		return false
	}
	if !call.Began.IsZero() { // other handles of the key report it, too
		w.rememberLocked(call.Task, monitor.EndedCall{})
	}
	return true
}

// rememberLocked remembers a call that continues as a task; the zero call stands for one that has ended.
func (w *Writer) rememberLocked(task string, call monitor.EndedCall) {
	if len(w.tasks) >= maxTasks {
		for oldest := range w.tasks { // any: they are many
			delete(w.tasks, oldest)
			break
		}
	}
	w.tasks[task] = call
}

// Event adds an event. Log messages of servers and updates of resources are not kept: their number is up to the servers.
func (w *Writer) Event(e mcpvisor.Event) {
	if e.Kind.FromServer() {
		return
	}
	r := Record{Time: e.Time, Kind: KindEvent, Server: e.Server, Epoch: e.Epoch, Event: e.Kind, Text: e.String()}
	if details, err := json.Marshal(e); err == nil && len(details) <= maxDetails {
		r.Details = details
	}
	w.Add(r)
}

// Add adds a record, of KindApproval for instance. Seq, FileVersion and Previous are set by the writer. Texts are cut to 512
// bytes. Of arguments it keeps a copy of what the options say. After Close it does nothing.
func (w *Writer) Add(r Record) {
	switch {
	case w.options.Arguments == ArgumentsNone:
		r.Arguments = nil
	case len(r.Arguments) > maxArguments:
		r.Arguments, r.ArgumentsBytes = nil, len(r.Arguments)
	default:
		r.Arguments = bytes.Clone(r.Arguments)
	}
	size := len(r.Arguments) + len(r.Details) + len(r.Text) + len(r.Target)
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.options.WhenFull == FullBlock && !w.closing && w.isFull(size) {
		w.room.Wait()
	}
	switch {
	case w.closing:
	case w.isFull(size):
		w.dropped++
		w.stats.Dropped++
	default:
		e := entry{Record: r}
		if w.options.Mask != nil {
			e.mask = w.options.Mask(r.Server) // now: the server may be gone when the record is written
		}
		w.queue = append(w.queue, e)
		w.queued += size
		if len(w.queue) == 1 {
			w.signal()
		}
	}
}

// isFull reports whether the queue has no room for a record of that size. An empty queue has.
func (w *Writer) isFull(size int) bool {
	return len(w.queue) >= maxQueued || len(w.queue) > 0 && w.queued+size > maxQueuedBytes
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Stats returns what the writer has done so far. It can be called after Close.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Close writes what was added, the anchor, and a record of the end. It returns why that failed, or how many records were
// lost. Further calls return the same.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closing = true
	w.room.Broadcast()
	w.signal()
	w.mu.Unlock()
	<-w.ended
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// run writes until Close.
func (w *Writer) run() {
	defer close(w.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		closing := w.take()
		err := w.write(closing)
		if w.chain.seq > w.anchored {
			if wait = time.Until(w.at.Add(anchorEvery)); wait <= 0 || closing {
				wait = time.Hour
				err = errors.Join(err, w.writeAnchor(w.files[0].first))
			}
		}
		if err != nil {
			wait = min(wait, retryEvery)
		}
		more := w.report(err)
		if closing {
			w.end(err)
			return
		}
		if more && err == nil { // they were added while others could not be written, and have used up their signal
			continue
		}
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// take moves the queue to what is retained, if nothing is, and reports whether the writer is closing.
func (w *Writer) take() (closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.retained) == 0 || w.closing {
		if w.dropped > 0 {
			w.retained = append(w.retained, entry{Record: Record{Kind: KindGap, Lost: w.dropped}})
			w.dropped = 0
		}
		if len(w.retained) == 0 {
			w.retained, w.queue = w.queue, w.spare
		} else {
			w.retained = append(w.retained, w.queue...)
			clear(w.queue)
		}
		w.spare, w.queue, w.queued = nil, w.queue[:0], 0
		w.room.Broadcast()
	}
	return w.closing
}

// report updates what Stats returns, and calls Options.Report if need be. It reports whether records are in the queue.
func (w *Writer) report(err error) bool {
	var bytes int64
	for _, s := range w.files {
		bytes += s.bytes
	}
	w.mu.Lock()
	before := w.stats.Problem
	w.stats.Written, w.stats.Anchored, w.stats.Bytes, w.stats.Problem = w.chain.seq, w.anchored, bytes, ""
	if err != nil {
		w.stats.Problem = err.Error()
	}
	more, problem := len(w.queue) > 0, w.stats.Problem
	closing := w.closing
	w.mu.Unlock()
	if w.options.Report != nil && !closing && (before == "") != (problem == "") {
		w.options.Report(problem)
	}
	return more
}

// end closes the files.
func (w *Writer) end(err error) {
	err = errors.Join(err, w.file.Close())
	w.unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := uint64(len(w.retained)) + w.dropped; n > 0 {
		err = errors.Join(err, fmt.Errorf("lost %s", display.Count(n, "record")))
	}
	w.err = err
}

// errFull is the error of a directory that has reached its bound.
var errFull = errors.New("the records have reached their bound on disk; raise it, or let the oldest be deleted (rotate)")

// write writes what is retained. When it fails it keeps what is not on disk, or drops it if only the bound is in the way.
func (w *Writer) write(closing bool) error {
	end := entry{Record: Record{Kind: KindEnd}}
	if closing {
		w.retained = append(w.retained, end)
	}
	spare := w.retained[:0]
	for len(w.retained) > 0 {
		n, err := w.writeChunk(w.retained)
		clear(w.retained[:n]) // nothing keeps their texts
		w.retained = w.retained[n:]
		switch {
		case err == nil:
		case !errors.Is(err, errFull) || w.options.WhenFull != FullDrop || w.reserved == 0:
			return err
		default:
			w.drop()
			if !closing {
				return err
			}
			w.reserved = 0 // the rest is for the number of those that were lost, and the end
			w.take()
			w.retained = append(w.retained, end)
		}
	}
	w.retained, w.spare = nil, spare
	return nil
}

// drop drops what is retained, because it finds no room on the disk, and counts it. Records of gaps count for what they say.
func (w *Writer) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.retained {
		switch r.Kind {
		case KindGap:
			w.dropped += r.Lost
		case KindEnd:
		default:
			w.dropped++
			w.stats.Dropped++
		}
	}
	w.retained = nil
}

// writeChunk writes the first records, and returns how many. After an error the file is as before.
func (w *Writer) writeChunk(all []entry) (n int, err error) {
	next, buffer := w.chain, w.buffer[:0]
	for n < len(all) && len(buffer) < chunkBytes {
		r := w.prepare(all[n])
		r.Seq = next.seq + 1
		grown, h, err := appendLine(buffer, &r, next.hash)
		if err != nil { // it cannot be encoded: the record says so
			r = Record{Seq: r.Seq, Time: r.Time, Kind: r.Kind, Server: r.Server, Outcome: r.Outcome, Text: "the record cannot be encoded"}
			if grown, h, err = appendLine(buffer, &r, next.hash); err != nil {
				return 0, err
			}
		}
		buffer, next.seq, next.hash = grown, r.Seq, h
		n++
	}
	w.buffer = buffer
	if cap(w.buffer) > 2*maxLineBytes {
		w.buffer = nil
	}
	if last := w.files[len(w.files)-1]; last.bytes > 0 && last.bytes+int64(len(buffer)) > w.segmentBytes() && w.chain.line > 1 {
		if err := w.rotate(); err != nil {
			return 0, err
		}
		return 0, nil // encoded again: the numbers are others
	}
	if err := w.makeRoom(int64(len(buffer))); err != nil {
		return 0, err
	}
	if err := w.append(buffer); err != nil {
		return 0, err
	}
	for i := range all[:n] {
		w.servers.add(&all[i].Record)
	}
	next.line, next.end = w.chain.line+n, w.chain.end+int64(len(buffer))
	w.chain = next
	return n, nil
}

// segmentBytes is the length from which on a new file is begun.
func (w *Writer) segmentBytes() int64 { return min(32<<20, w.options.MaxBytes/8) }

// append appends to the file, all or nothing.
func (w *Writer) append(b []byte) error {
	last := &w.files[len(w.files)-1]
	if _, err := w.file.WriteAt(b, last.bytes); err != nil {
		_ = w.file.Truncate(last.bytes)
		return fmt.Errorf("write the records: %w", err)
	}
	last.bytes += int64(len(b))
	return nil
}

// makeRoom deletes the oldest files, if it may, until n more bytes are within the bound.
func (w *Writer) makeRoom(n int64) error {
	total := n + w.reserved
	for _, s := range w.files {
		total += s.bytes
	}
	for total > w.options.MaxBytes {
		if w.options.WhenFull != FullRotate || len(w.files) == 1 {
			return errFull
		}
		if err := w.writeAnchor(w.files[1].first); err != nil { // first: a crash leaves a file too many, not one too few
			return err
		}
		if err := os.Remove(w.files[0].path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete the oldest records: %w", err)
		}
		total -= w.files[0].bytes
		w.files = w.files[1:]
	}
	return nil
}

// rotate begins a new file. Its first line is on disk when it succeeds.
func (w *Writer) rotate() error {
	servers := w.servers.details(w.segmentBytes() / 2)
	if err := w.makeRoom(reservedBytes + int64(len(servers))); err != nil {
		return err
	}
	if err := w.writeAnchor(w.files[0].first); err != nil { // all of the file before is on disk, and anchored
		return err
	}
	return w.begin(servers)
}

// begin makes the file after the last record. servers are the conditions in its first line.
func (w *Writer) begin(servers json.RawMessage) error {
	r := Record{Seq: w.chain.seq + 1, Time: time.Now().UTC(), Kind: KindSegment, FileVersion: Version, Previous: w.chain.hash.String(), Details: servers}
	line, h, err := appendLine(nil, &r, w.chain.hash)
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, segmentName(r.Seq))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		if _, err = f.Write(line); err != nil {
			_ = f.Close()
			_ = os.Remove(path)
		}
	}
	if err != nil {
		return fmt.Errorf("begin a file of records: %w", err)
	}
	if w.file != nil {
		_ = w.file.Close()
	}
	w.file, w.files = f, append(w.files, segment{r.Seq, path, int64(len(line))})
	w.chain = chain{seq: r.Seq, hash: h, segment: r.Seq, end: int64(len(line)), line: 1}
	return nil
}

// writeAnchor has the anchor cover what was written. Before that, it is on disk.
func (w *Writer) writeAnchor(first uint64) error {
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("write the records: %w", err)
	}
	a := anchor{First: first, Segment: w.chain.segment, Seq: w.chain.seq, Hash: w.chain.hash.String()}
	if err := a.write(w.options.Anchor, w.options.Key); err != nil {
		return err
	}
	w.anchored, w.at = w.chain.seq, time.Now()
	return nil
}

// prepare bounds a record and masks its secrets, before anything else is done with it.
func (w *Writer) prepare(e entry) Record {
	r, mask := e.Record, e.mask
	if mask == nil {
		mask = func(text string) string { return text }
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.Time = r.Time.Round(0).UTC()
	for _, text := range []*string{&r.Target, &r.Client, &r.Principal, &r.Text} {
		*text = display.Shorten(display.Line(mask(*text)), maxTextBytes)
	}
	r.Details = canonical.Masked(mask, r.Details)
	if r.Arguments = canonical.Masked(mask, r.Arguments); r.Arguments != nil && w.options.Arguments == ArgumentsDigest {
		m := hmac.New(sha256.New, w.options.Key)
		m.Write(r.Arguments)
		r.Arguments, r.ArgumentsDigest = nil, "hmac-sha256:"+hex.EncodeToString(m.Sum(nil))
	}
	return r
}
