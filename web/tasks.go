package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// maxEntries is how many entries of the journal are shown.
const maxEntries = 500

func (h *Handler) getTasks(w http.ResponseWriter, r *http.Request) {
	entries, err := h.client.JournalEntries(r.Context())
	answerValue(h, w, r, func() api.Tasks {
		tasks := api.Tasks{Tasks: orEmpty(h.client.Tasks()), Earlier: max(len(entries)-maxEntries, 0)}
		tasks.Journal = entries[tasks.Earlier:]
		if err != nil {
			tasks.Problem = h.inTerms(err.Error())
		}
		return tasks
	})
}

func (h *Handler) postTaskCancel(w http.ResponseWriter, r *http.Request) {
	request, ok := h.taskRequest(w, r)
	if !ok {
		return
	}
	if number := h.openTask(request); number != 0 { // a caller waits for it
		if err := h.client.CancelTask(r.Context(), number); err != nil {
			h.writeFailure(w, err)
			return
		}
		writeJSON(w, http.StatusAccepted, api.CancelAnswer{Asked: true})
		return
	}
	task, err := h.client.ResumeTask(r.Context(), keyOf(request))
	if err == nil {
		err = task.Cancel(r.Context())
	}
	if err != nil {
		h.writeFailure(w, err)
		return
	}
	asked := task.ID() != ""
	if asked { // so that the journal learns what became of it
		ctx, cancel := context.WithTimeout(r.Context(), cancelWait)
		_, _ = task.WaitRaw(ctx)
		cancel()
	}
	writeJSON(w, http.StatusAccepted, api.CancelAnswer{Asked: asked})
}

// cancelWait is how long the end of a canceled task is awaited if no other caller waits.
const cancelWait = 2 * time.Second

// openTask returns the number of the open task that a request names; 0 if its key has none.
func (h *Handler) openTask(request api.TaskRequest) uint64 {
	for _, t := range h.client.Tasks() {
		if request.Key != "" && t.JournalKey() == keyOf(request) {
			return t.Number
		}
	}
	return request.Number
}

// keyOf is the key that a request names.
func keyOf(r api.TaskRequest) mcpvisor.JournalKey {
	return mcpvisor.JournalKey{Principal: r.Principal, Key: r.Key}
}

// postTaskWait waits for the call of a key, and answers with its result. The end of the request
// leaves the call alone.
func (h *Handler) postTaskWait(w http.ResponseWriter, r *http.Request) {
	request, ok := h.taskRequest(w, r)
	if !ok {
		return
	}
	began := time.Now()
	task, err := h.client.ResumeTask(r.Context(), keyOf(request))
	if err != nil {
		h.writeFailure(w, err)
		return
	}
	result, err := task.WaitRaw(r.Context())
	if err != nil {
		h.writeFailure(w, err)
		return
	}
	h.writeResult(w, request.Key, result, time.Since(began))
}

// errTask is the cause of a body that names no task, or two.
var errTask = errors.New(`it has to have either "number" or "key"; api/tasks/wait takes only "key"`)

// taskRequest reads the body of a request about a task. If it is wrong, the request is answered.
func (h *Handler) taskRequest(w http.ResponseWriter, r *http.Request) (request api.TaskRequest, ok bool) {
	body := h.bodies.NewBody(w, r, maxTaskBytes)
	defer body.Release()
	request, err := jsonanswer.Decode[api.TaskRequest](body)
	waits := r.URL.Path == "/api/tasks/wait"
	if err == nil && ((request.Key == "") == (request.Number == 0) || waits && request.Key == "") {
		err = errTask
	}
	if err != nil {
		refuseBody(w, err)
		return request, false
	}
	return request, true
}

// maxTaskBytes bounds the body of a request about a task.
const maxTaskBytes = 4 << 10

const (
	// unfinishedEvery is how often the journal is read for all readers together.
	unfinishedEvery = 5 * time.Second
	// maxUnfinished is how many of these calls are shown.
	maxUnfinished = 20
)

// unfinished are the calls with a key that an earlier process has made and that have not ended.
// The zero value is ready. Safe for concurrent use.
type unfinished struct {
	mu    sync.Mutex
	until time.Time // when the journal is read again
	calls []mcpvisor.JournalEntry
}

// read returns the calls, which were read a few seconds ago at most. A journal that cannot be
// read gives none; GET api/tasks says why.
func (u *unfinished) read(ctx context.Context, c *facade.Client) []mcpvisor.JournalEntry {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); now.After(u.until) {
		u.until = now.Add(unfinishedEvery)
		all, err := c.JournalEntries(ctx)
		if err != nil {
			return nil
		}
		started := c.Stats().Started
		u.calls = slices.DeleteFunc(all, func(e mcpvisor.JournalEntry) bool {
			return e.State == mcpvisor.JournalEnded || e.State == mcpvisor.JournalNotRun || !e.Began.Before(started) || e.Open
		})
	}
	return u.calls
}
