package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonanswer"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
	"github.com/mcpvisor/mcpvisor/web/api"
)

const (
	// maxBodyBytes bounds the body of a request.
	maxBodyBytes = 8 << 20
	// maxToolBytes bounds the name of a tool that is called.
	maxToolBytes = 4 << 10
	// maxRedirectBytes bounds the body of an authorization.
	maxRedirectBytes = 64 << 10
	// authorizeWait is how long a new authorization URL is awaited.
	authorizeWait = 30 * time.Second
)

func (h *Handler) postRestart(w http.ResponseWriter, r *http.Request) {
	h.operate(w, r, http.StatusAccepted, h.client.Restart)
}

// postStop answers when the server has ended.
func (h *Handler) postStop(w http.ResponseWriter, r *http.Request) {
	h.operate(w, r, http.StatusOK, h.client.Stop)
}

func (h *Handler) postStart(w http.ResponseWriter, r *http.Request) {
	h.operate(w, r, http.StatusAccepted, func(ctx context.Context, name string, _ ...facade.EndOption) error { return h.client.Start(ctx, name) })
}

// errNoAuthorization is the cause of an authorization that the server does not wait for.
var errNoAuthorization = errors.New("the server waits for no authorization that a browser could give; restart it, and look at its status")

// postAuthorize answers with the URL at which the user authorizes the client at a server, or completes that with the URL to
// which the browser was sent.
func (h *Handler) postAuthorize(w http.ResponseWriter, r *http.Request) {
	name, required := r.PathValue("name"), (*mcpvisor.AuthRequired)(nil)
	body := h.bodies.NewBody(w, r, maxRedirectBytes)
	defer body.Release()
	request, err := jsonanswer.Decode[api.AuthorizeRequest](body)
	if err != nil {
		refuseBody(w, err)
		return
	}
	if request.Redirect != "" {
		err = h.client.FinishAuthorization(r.Context(), name, request.Redirect)
	} else if s, ok := h.client.ServerStatus(name); !ok {
		err = &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrUnknownServer}
	} else if s.State != supervisor.StateUnauthorized || s.LastCause == nil || !errors.As(s.LastCause, &required) || required.URL == "" {
		err = &mcpvisor.Error{Server: name, Kind: mcpvisor.ErrInvalid, Cause: errNoAuthorization}
	} else if err = h.client.Restart(r.Context(), name); err == nil { // the URL may be used up or too old: the next start has one that is not
		ctx, cancel := context.WithTimeout(r.Context(), authorizeWait)
		defer cancel()
		required, err = nil, h.client.WaitReady(ctx, name)
		if errors.As(err, &required) && required.URL != "" {
			err = nil
		}
	}
	switch {
	case err != nil:
		h.writeFailure(w, err)
	case required != nil:
		writeJSON(w, http.StatusOK, api.AuthorizeAnswer{URL: required.URL})
	default:
		writeJSON(w, http.StatusOK, api.AuthorizeAnswer{})
	}
}

// operate answers with status when an operation on the server or group in the path has succeeded.
func (h *Handler) operate(w http.ResponseWriter, r *http.Request, status int, do func(context.Context, string, ...facade.EndOption) error) {
	name := r.PathValue("name")
	var options []facade.EndOption
	if r.URL.Query().Get("drain") == "true" {
		options = append(options, facade.WithDrain())
	}
	if err := do(r.Context(), name, options...); err != nil {
		h.writeFailure(w, err)
		return
	}
	writeJSON(w, status, api.RestartAnswer{Server: name})
}

// postCall calls a tool. The call ends with the request: a page that is closed cancels it.
func (h *Handler) postCall(w http.ResponseWriter, r *http.Request) {
	body := h.bodies.NewBody(w, r, maxBodyBytes)
	defer body.Release()
	call, err := jsonanswer.Decode[api.CallRequest](body)
	if err == nil {
		err = validateCall(&call)
	}
	if err != nil {
		refuseBody(w, err)
		return
	}
	options := []facade.CallOption{facade.WithTimeout(time.Duration(call.TimeoutMs) * time.Millisecond)}
	if call.Check == nil || *call.Check {
		options = append(options, facade.WithStrictValidation())
	}
	if call.WaitReady {
		options = append(options, facade.WithWaitReady())
	}
	if call.Key != "" {
		options = append(options, facade.WithKey(call.Key))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	began := time.Now()
	result, err := h.client.CallToolRaw(ctx, call.Tool, call.Arguments, options...)
	if err != nil {
		h.writeFailure(w, err)
		return
	}
	took := time.Since(began)
	body.Release()
	h.writeResult(w, call.Tool, result, took)
}

// validateCall checks what the type does not.
func validateCall(c *api.CallRequest) error {
	if len(c.Tool) > maxToolBytes { // the error about an unknown tool repeats it
		return fmt.Errorf("tool has %d bytes; a name has at most %d", len(c.Tool), maxToolBytes)
	}
	if most := int64(math.MaxInt64 / time.Millisecond); c.TimeoutMs < 0 || c.TimeoutMs > most {
		return fmt.Errorf("timeoutMs is %d; set 0 for the default, or at most %d", c.TimeoutMs, most)
	}
	return nil
}

// refuseBody answers a request whose body is not a call.
func refuseBody(w http.ResponseWriter, err error) {
	if errors.Is(err, jsonanswer.ErrNoRoom) {
		writeBusy(w, "the calls of other requests are in memory; try again later")
		return
	}
	status := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		status = http.StatusRequestTimeout
	}
	writeError(w, status, api.ErrorDetail{Kind: mcpvisor.ErrInvalid, Outcome: mcpvisor.OutcomeNotSent, Message: "the body is not a call: " + display.Shorten(err.Error(), 1<<10)})
}

// writeResult writes a [api.CallAnswer]. The result is written as it came, without a copy. If too
// many are held for other readers, it is dropped, and the error says that the tool has run.
func (h *Handler) writeResult(w http.ResponseWriter, tool string, result json.RawMessage, took time.Duration) {
	if len(result) > jsonanswer.SmallBytes {
		if !h.answers.Take(len(result)) {
			writeError(w, http.StatusServiceUnavailable, api.ErrorDetail{Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeAnswered,
				Message: fmt.Sprintf("%s has run, and its result of %d bytes was dropped, because large answers for other readers are in memory", tool, len(result))})
			return
		}
		defer h.answers.Return(len(result))
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	jsonanswer.SetDeadline(w, len(result))
	for _, part := range [][]byte{[]byte(`{"result":`), result, fmt.Appendf(nil, `,"tookNs":%d}`+"\n", took)} {
		if _, err := w.Write(part); err != nil { //nolint:gosec // it is JSON, as the header says
			return // a reader that has gone needs no answer
		}
	}
}

func (h *Handler) writeFailure(w http.ResponseWriter, err error) {
	var e *mcpvisor.Error
	if !errors.As(err, &e) {
		writeError(w, http.StatusInternalServerError, api.ErrorDetail{Message: h.inTerms(err.Error())})
		return
	}
	writeError(w, statusOf(e.Kind), api.ErrorDetail{Kind: e.Kind, Outcome: e.Outcome, Retryable: e.Retryable(), Server: e.Server,
		Message: h.inTerms(e.Error()), RetryAfterMs: e.RetryAfter.Milliseconds()})
}

func statusOf(kind mcpvisor.ErrorKind) int {
	switch kind {
	case mcpvisor.ErrUnknownServer, mcpvisor.ErrUnknownTool:
		return http.StatusNotFound
	case mcpvisor.ErrInvalid:
		return http.StatusBadRequest
	case mcpvisor.ErrDenied:
		return http.StatusForbidden
	case mcpvisor.ErrOverloaded:
		return http.StatusTooManyRequests
	case mcpvisor.ErrTimeout:
		return http.StatusGatewayTimeout
	case mcpvisor.ErrExists:
		return http.StatusConflict
	case mcpvisor.ErrUnavailable, mcpvisor.ErrEvicted, mcpvisor.ErrStart, mcpvisor.ErrAuthRequired, mcpvisor.ErrClosed, mcpvisor.ErrCanceled, mcpvisor.ErrJournal:
		return http.StatusServiceUnavailable
	default:
	}
	return http.StatusBadGateway // it was sent, and the server or the connection failed
}

// maxEntries is how many entries of the journal are shown.
const maxEntries = 500

// postCallCancel ends a call in flight, as GET api/calls lists it.
func (h *Handler) postCallCancel(w http.ResponseWriter, r *http.Request) {
	body := h.bodies.NewBody(w, r, maxTaskBytes)
	defer body.Release()
	call, err := jsonanswer.Decode[monitor.CallInFlight](body)
	if err != nil {
		refuseBody(w, err)
		return
	}
	if err := relay.Of(h.client).CancelCall(call); err != nil {
		h.writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, api.CancelAnswer{Asked: !call.Queued})
}

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
		if err := relay.Of(h.client).CancelTask(r.Context(), number); err != nil {
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
