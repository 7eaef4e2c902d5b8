// Package task reads the tasks of servers: calls that outlive the connection on which they
// were made. There are two generations: the experimental tasks of MCP 2025-11-25, and the
// extension io.modelcontextprotocol/tasks since 2026-07-28 (SEP-2663). The client follows
// tasks in package facade.
package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Extension is the name of the extension in the capabilities of client and server, since
// 2026-07-28.
const Extension = "io.modelcontextprotocol/tasks"

// Status is the state of a task, in the words of the protocol.
type Status string

// The states of a task. The last three are final.
const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// Final reports whether the task has ended.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// Bounds of what a server says about a task, in bytes.
const (
	// MaxID bounds the id. An id that is cut names another task or none, so a longer one is
	// an error.
	MaxID = 1 << 10
	// maxMessage bounds the message, which is shown. A longer one is cut.
	maxMessage = 1 << 10
)

// Task is what a server says about a task at one time. Result, Failure and Requests are
// slices of the text that was read.
type Task struct {
	ID      string // a secret: some servers accept it as the only credential
	Status  Status
	Message string        // one line for users; may be empty
	TTL     time.Duration // from the creation of the task; 0: unlimited, or not said
	Poll    time.Duration // how often the server wants to be asked; 0: not said
	// Created is when the server made the task; zero: not said. An id may be given again by the next
	// incarnation of a server, so both together identify a task.
	Created time.Time
	// Result is the result of the call (since 2026-07-28, completed), Failure its JSON-RPC
	// error (failed), and Requests the input that the task waits for, by key
	// (input_required).
	Result, Failure, Requests json.RawMessage
}

// Is reports whether the result of a tool call is a task. In 2025-11-25 it has the member
// "task" and no content; since 2026-07-28 its type says so. It costs little for all other
// results.
func Is(result []byte, modern bool) bool {
	if bytes.HasPrefix(result, []byte(`{"content":`)) && !modern || !bytes.Contains(result, []byte(`"task"`)) { // nearly all results
		return false
	}
	task, typed, content := false, false, false
	_ = jsonscan.EachMember(result, func(key string, value []byte) error {
		switch key {
		case "task":
			task = value[0] == '{'
		case "resultType":
			typed = modern && string(value) == `"task"`
		case "content", "structuredContent":
			content = content || string(value) != "null"
		}
		return nil
	})
	return typed || task && !content
}

// Read reads a task: the result of a tool call for which [Is] reports true, the result of
// tasks/get, or the params of a notification. Both generations are read alike.
func Read(text []byte) (t Task, err error) {
	if err = t.read(text, true); err == nil {
		err = t.check()
	}
	if err != nil {
		return Task{}, fmt.Errorf("the server sent a task that cannot be read: %w", err)
	}
	return t, nil
}

// read reads the members of a task. Only the outermost object may have the task in it, so each byte
// is scanned twice at most.
func (t *Task) read(text []byte, outermost bool) error {
	return jsonscan.EachMember(text, func(key string, value []byte) (err error) {
		if string(value) == "null" {
			return nil
		}
		switch key {
		case "task":
			if outermost && value[0] == '{' { // the answer to a call in 2025-11-25
				*t = Task{}
				err = t.read(value, false)
			}
		case "taskId":
			t.ID, err = jsonscan.ReadString(value)
		case "status":
			var status string
			status, err = jsonscan.ReadString(value)
			t.Status = Status(status)
		case "statusMessage":
			var message string
			if message, err = jsonscan.ReadString(value); err == nil {
				t.Message = display.Shorten(display.Line(message), maxMessage)
			}
		case "createdAt":
			t.Created = instant(value)
		case "ttl", "ttlMs":
			t.TTL = milliseconds(value)
		case "pollInterval", "pollIntervalMs":
			t.Poll = milliseconds(value)
		case "result":
			t.Result = value
		case "error":
			t.Failure = value
		case "inputRequests":
			t.Requests = value
		}
		if err != nil {
			return fmt.Errorf("its member %q: %w", key, err)
		}
		return nil
	})
}

// ReadID returns the id of a task, and reads nothing behind it; empty without one that
// [Read] would accept. The id is a copy.
func ReadID(text []byte) (id string) {
	_ = jsonscan.EachMember(text, func(key string, value []byte) (err error) {
		if key != "taskId" {
			return nil
		}
		if id, err = jsonscan.ReadString(value); err == nil {
			err = io.EOF
		}
		return err
	})
	if len(id) > MaxID {
		return ""
	}
	return strings.Clone(id)
}

// check refuses a task that cannot be followed.
func (t *Task) check() error {
	switch {
	case t.ID == "":
		return errors.New(`it has no "taskId"`)
	case len(t.ID) > MaxID:
		return fmt.Errorf("its id is %d bytes long; at most %d are accepted", len(t.ID), MaxID)
	}
	switch t.Status {
	case Working, InputRequired, Completed, Failed, Cancelled:
		return nil
	default:
		return fmt.Errorf("its status %.40q is unknown", t.Status)
	}
}

// maxInstant bounds the text of a time, in bytes.
const maxInstant = 64

// instant reads a time. Text that is no time counts as not said.
func instant(value []byte) time.Time {
	text, err := jsonscan.ReadString(value)
	if err != nil || len(text) > maxInstant {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse("2006-01-02T15:04:05", text) // without a zone
	}
	if at = at.UTC().Truncate(time.Millisecond); err != nil || at.Year() < 1 || at.Year() > 9999 {
		return time.Time{}
	}
	return at
}

// maxMilliseconds is the longest time that is believed: about ten years.
const maxMilliseconds = 10 * 365 * 24 * 3600 * 1000

// milliseconds reads a time. What is no positive number counts as not said.
func milliseconds(value []byte) time.Duration {
	ms, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(ms > 0) {
		return 0
	}
	return time.Duration(min(ms, maxMilliseconds) * float64(time.Millisecond))
}

// A server that asks to be polled without a pause, or once a day, gets the nearest of these.
// Nor is it asked more often than MinPoll if it says that the task has changed.
const (
	MinPoll = 20 * time.Millisecond
	maxPoll = 30 * time.Second
)

// unsaid is the series of pauses for a server that does not say how often it wants to be
// asked.
var unsaid = backoff.Backoff{First: 100 * time.Millisecond, Max: 5 * time.Second}

// Pause is how long to wait before the task is asked for again, after it was asked for n
// times. Up to a quarter is added at random.
func (t *Task) Pause(n int) time.Duration {
	if t.Poll <= 0 {
		return backoff.WithJitter(unsaid.Delay(n + 1))
	}
	return backoff.WithJitter(min(max(t.Poll, MinPoll), maxPoll))
}

// Params returns the params of tasks/get, tasks/result and tasks/cancel.
func Params(id string) json.RawMessage {
	return append(append([]byte(`{"taskId":`), jsonscan.Quote(id)...), '}')
}

// ListenParams returns the params of subscriptions/listen for notifications about a task
// (2026-07-28).
func ListenParams(id string) json.RawMessage {
	return append(append([]byte(`{"notifications":{"taskIds":[`), jsonscan.Quote(id)...), `]}}`...)
}

// UpdateParams returns the params of tasks/update. responses is the JSON of an object.
func UpdateParams(id string, responses json.RawMessage) json.RawMessage {
	b := bytes.TrimSuffix(Params(id), []byte("}"))
	return append(append(append(b, `,"inputResponses":`...), responses...), '}')
}
