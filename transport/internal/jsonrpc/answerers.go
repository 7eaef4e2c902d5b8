package jsonrpc

import (
	"time"

	"github.com/mcpvisor/mcpvisor/transport"
)

// Who answers a request of a legacy server: see package inbound. Over Streamable HTTP the
// response to a POST names the call. On every other stream nothing does. Then a request has an
// answerer only if all calls in flight have the same one.

const (
	// GivenUpGrace is how long a call counts as in flight after its caller has given it up, and
	// before the server has answered it: the server may not have seen the cancellation, or not
	// obey it, and still ask. A server that obeys never answers.
	GivenUpGrace = time.Minute
	// maxGivenUp is how many of these calls are remembered.
	maxGivenUp = 1024
)

// answerers are the handlers of calls that were given up. The mutex of the table guards it.
type answerers struct {
	// several: a call has had handlers of its own. Until then every request is for the handlers
	// of the client, and only a time is kept.
	several bool
	// logs: a caller has wanted log messages. Until then none is looked for.
	logs    bool
	givenUp map[int64]givenUp // by the id of the call
	// earlier is the end of the grace of the last call that was given up while neither several nor logs was set.
	earlier time.Time
	// crowded is the end of the grace of the last call that was given up when givenUp was full.
	crowded time.Time
}

// givenUp is a call that was given up.
type givenUp struct {
	handlers *transport.CallHandlers
	until    time.Time
}

// add remembers a call that was given up.
func (a *answerers) add(e *Entry, now time.Time) {
	if !mayAsk(e) {
		return
	}
	until := now.Add(GivenUpGrace)
	if !a.several && !a.logs {
		a.earlier = until
		return
	}
	if len(a.givenUp) >= maxGivenUp && a.expire(now) >= maxGivenUp {
		a.crowded = until
		return
	}
	if a.givenUp == nil {
		a.givenUp = make(map[int64]givenUp)
	}
	a.givenUp[e.ID] = givenUp{e.Handlers, until}
}

// expire forgets the calls that no longer count, and returns how many are left.
func (a *answerers) expire(now time.Time) (left int) {
	for id, call := range a.givenUp {
		if call.until.Before(now) {
			delete(a.givenUp, id)
		}
	}
	return len(a.givenUp)
}

// mayAsk reports whether a server may ask the client for something because of a request. What the
// client itself sends, such as probes and lists, is not counted: a list that is read at the moment
// would have every request refused.
func mayAsk(e *Entry) bool {
	switch e.What.Method {
	case "tools/call", "resources/read", "prompts/get", "completion/complete", "tasks/result":
		return true
	}
	return false
}

// loggerOf returns the queue of the caller that gets a log message: of the request that it is about,
// if that is known and its caller wants them; nil otherwise. On a stream that names no request, it
// is known if exactly one is in flight.
func (t *Table) loggerOf(method []byte, call int64) *ProgressQueue {
	if string(method) != methodLog {
		return nil
	}
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if !t.answerers.logs {
		return nil
	}
	var of *Entry
	if call > 0 {
		of = t.Open.Get(call)
	} else {
		if now := time.Now(); t.answerers.expire(now) > 0 || now.Before(t.answerers.crowded) || now.Before(t.answerers.earlier) {
			return nil
		}
		for e := range t.Open.All() {
			if e.ID <= 0 || !mayAsk(e) || !e.Owner.InFlight() {
				continue
			}
			if of != nil {
				return nil
			}
			of = e
		}
	}
	if of == nil || of.Progress == nil || of.Progress.log == nil {
		return nil
	}
	return of.Progress
}

// GaveUp is GaveUpLocked for a caller that does not hold Mu.
func (t *Table) GaveUp(e *Entry) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.GaveUpLocked(e)
}

// GaveUpLocked records that a call ends before the server has answered it, and that the server may
// still work on it. The caller holds Mu, and has not let it go since the entry was in the table.
func (t *Table) GaveUpLocked(e *Entry) { t.answerers.add(e, time.Now()) }

// AnsweredLate is AnsweredLateLocked for a caller that does not hold Mu.
func (t *Table) AnsweredLate(id int64) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.AnsweredLateLocked(id)
}

// AnsweredLateLocked records that the server has answered a call that was given up. The caller
// holds Mu.
func (t *Table) AnsweredLateLocked(id int64) { delete(t.answerers.givenUp, id) }

// AnswererOf returns the handlers of the call that a server request of a method belongs to, nil for those of
// the client, and the id of the call if it is known. call is as in CountRequest. ok is false if
// the calls that the request may belong to have different handlers.
func (t *Table) AnswererOf(call int64, method string) (handlers *transport.CallHandlers, id int64, ok bool) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if !t.answerers.several {
		return nil, call, true
	}
	if call > 0 {
		e := t.Open.Get(call)
		if e == nil { // it has ended
			return nil, call, false
		}
		return e.Handlers.For(method), call, true
	}
	now := time.Now()
	if now.Before(t.answerers.crowded) {
		return nil, call, false
	}
	calls := 0
	count := func(its *transport.CallHandlers) bool {
		its = its.For(method)
		if calls++; calls == 1 {
			handlers = its
		}
		return its == handlers
	}
	for e := range t.Open.All() {
		if e.ID <= 0 || !mayAsk(e) || !e.Owner.InFlight() {
			continue
		}
		if id = e.ID; !count(e.Handlers) {
			return nil, call, false
		}
	}
	if now.Before(t.answerers.earlier) && !count(nil) {
		return nil, call, false
	}
	t.answerers.expire(now)
	for _, given := range t.answerers.givenUp {
		if !count(given.handlers) {
			return nil, call, false
		}
	}
	if calls != 1 || id == 0 {
		id = call
	}
	return handlers, id, true
}
