package mcptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Stage is a moment in the life of a server at which a [Fault] can happen. The constants
// below are all stages.
type Stage string

const (
	// StageStart is before the server reads anything.
	StageStart Stage = "start"
	// StageDiscover is before server/discover is answered.
	StageDiscover Stage = "discover"
	// StageInitialize is before initialize is answered.
	StageInitialize Stage = "initialize"
	// StageInitialized is when notifications/initialized has arrived.
	StageInitialized Stage = "initialized"
	// StageList is before one of the four lists is answered, page by page.
	// Method narrows it to one of them.
	StageList Stage = "list"
	// StageCall is before tools/call is handled, or another request that Method names
	// ("resources/read", "prompts/get", …; "*" means any).
	StageCall Stage = "call"
	// StageAnswer is in the middle of an answer, when half of the line is written. It
	// applies to tools/call unless Method names another request.
	StageAnswer Stage = "answer"
	// StageAfter is when an answer has been written. It applies to tools/call unless
	// Method names another request.
	StageAfter Stage = "after"
	// StagePing is before ping is answered.
	StagePing Stage = "ping"
	// StageStdinClosed is when the client has closed stdin, which asks the server to
	// exit.
	StageStdinClosed Stage = "stdin_closed"
)

// Action says what a [Fault] does. The constants below are all actions; the fields that
// they use are those of Fault.
type Action string

const (
	// ActionExit ends the process with status Code.
	ActionExit Action = "exit"
	// ActionDie ends the process by Signal, "KILL" by default. KILL, TERM, INT and HUP
	// show as that signal; ABRT, SEGV and the like end a Go process with a stack
	// trace and status 2. In memory Serve returns an [ExitError].
	ActionDie Action = "die"
	// ActionHang leaves this request unanswered forever; other requests are served.
	ActionHang Action = "hang"
	// ActionHangAll stops reading stdin. The server does not notice either that stdin
	// is closed.
	ActionHangAll Action = "hang_all"
	// ActionIgnoreShutdown makes the server ignore SIGTERM and the closing of stdin
	// from then on. In memory it still ends with its context.
	ActionIgnoreShutdown Action = "ignore_shutdown"
	// ActionJunk writes Count lines to stdout that are not JSON-RPC. Each is Text, or
	// if Text is empty one of several kinds: a banner, a byte order mark, colours, a
	// blank line, 42, a JSON log line and so on.
	ActionJunk Action = "junk"
	// ActionHalfLine ends the line in the middle of the answer. The request gets no
	// other answer; the server continues.
	ActionHalfLine Action = "half_line"
	// ActionStderrFlood writes lines of Bytes bytes in total to stderr.
	ActionStderrFlood Action = "stderr_flood"
	// ActionStderrLine writes Text to stderr as a line.
	ActionStderrLine Action = "stderr_line"
	// ActionForkGrandchild starts a child that inherits stdout and stderr, ignores
	// SIGTERM and stays. Its pid is recorded; see [PIDs]. With Text "detached" it
	// leaves the process group. Only in a process.
	ActionForkGrandchild Action = "fork"
	// ActionError answers with a JSON-RPC error of Code (default -32603) and Text.
	ActionError Action = "error"
	// ActionMalformed answers with a malformed response. Text says which:
	//
	//	result       a result that is not an object; the default
	//	wrong_id     an answer to a request that the client never sent
	//	string_id    the id of the request as a string
	//	duplicate    the right answer, twice
	//	no_id        an answer without an id
	//	null_id      an error whose id is null
	//	error_text   an error that is a string instead of an object
	//	empty        neither a result nor an error
	ActionMalformed Action = "malformed"
	// ActionOversize pads the line of the answer to at least Bytes bytes.
	ActionOversize Action = "oversize"
	// ActionFlood sends Count notifications of the method in Text, by default
	// notifications/message.
	ActionFlood Action = "flood"
	// ActionRepeatCursor ends every page of a list with the cursor Text ("again" by
	// default), so that the list never ends. With Text "*" every page has a new cursor.
	ActionRepeatCursor Action = "repeat_cursor"
	// ActionBadTool adds one malformed entry to the list: Text, by default a tool whose
	// name is the number 12.
	ActionBadTool Action = "bad_tool"
	// ActionRefuseVersion answers initialize with the protocol version Text
	// ("1999-01-01" by default), or server/discover with error -32022.
	ActionRefuseVersion Action = "refuse_version"
	// ActionDelay waits for Delay before it continues. Other requests are served
	// meanwhile, except at StageAnswer, where half of the line is written.
	ActionDelay Action = "delay"
	// ActionCloseStdout closes stdout; the process continues to run.
	ActionCloseStdout Action = "close_stdout"
	// ActionLateAnswer answers after Delay (1 s by default), even if the request was
	// cancelled.
	ActionLateAnswer Action = "late_answer"
)

// The values of [Fault.Text] for [ActionMalformed].
const (
	malformedResult    = "result"
	malformedWrongID   = "wrong_id"
	malformedStringID  = "string_id"
	malformedDuplicate = "duplicate"
	malformedNoID      = "no_id"
	malformedNullID    = "null_id"
	malformedErrorText = "error_text"
	malformedEmpty     = "empty"
)

// Fault is one misbehaviour: the action Do at the stage At. Fields that the action does not use
// are ignored.
type Fault struct {
	// At is the stage at which the fault happens. Required.
	At Stage `json:"at"`
	// Method narrows the fault to requests of that method; see the stages.
	Method string `json:"method,omitempty"`
	// Tool narrows the fault to requests about that tool, prompt or resource URI.
	Tool string `json:"tool,omitempty"`
	// Nth is the occasion at which the fault happens, counted from 1 in each
	// incarnation. 0 means every occasion.
	Nth int `json:"nth,omitempty"`
	// Starts are the incarnations in which the fault happens, counted from 1. Empty
	// means all. A process needs [Script.StateDir] for this.
	Starts []int `json:"starts,omitempty"`
	// Do is the action. Required.
	Do Action `json:"do"`
	// Code is an exit status, or the code of a JSON-RPC error (0 means -32603).
	Code int `json:"code,omitempty"`
	// Signal is the name of a signal, such as "KILL" or "SIGKILL". Default: KILL.
	Signal string `json:"signal,omitempty"`
	// Count is a number of lines or notifications. 0 means 1.
	Count int `json:"count,omitempty"`
	// Bytes is a size in bytes. Default: 0.
	Bytes int `json:"bytes,omitempty"`
	// Text is the text to write. Its meaning and default are those of the action.
	Text string `json:"text,omitempty"`
	// Delay is how long to wait. In JSON: "50ms", or milliseconds.
	Delay time.Duration `json:"delay,omitempty"`
}

var (
	stages = []Stage{StageStart, StageDiscover, StageInitialize, StageInitialized, StageList,
		StageCall, StageAnswer, StageAfter, StagePing, StageStdinClosed}
	actions = []Action{ActionExit, ActionDie, ActionHang, ActionHangAll, ActionIgnoreShutdown, ActionJunk, ActionHalfLine, ActionStderrFlood, ActionStderrLine,
		ActionForkGrandchild, ActionError, ActionMalformed, ActionOversize, ActionFlood, ActionRepeatCursor, ActionBadTool, ActionRefuseVersion, ActionDelay,
		ActionCloseStdout, ActionLateAnswer}
	malformations = []string{"", malformedResult, malformedWrongID, malformedStringID, malformedDuplicate,
		malformedNoID, malformedNullID, malformedErrorText, malformedEmpty}
	// needsRequest are the actions that replace or change an answer.
	needsRequest = []Action{ActionHang, ActionError, ActionMalformed, ActionOversize, ActionRefuseVersion, ActionRepeatCursor, ActionBadTool, ActionLateAnswer, ActionHalfLine}
	// beforeAnswer are the stages before the answer to a request.
	beforeAnswer = []Stage{StageDiscover, StageInitialize, StageList, StageCall, StagePing}
)

func (f Fault) validate() error {
	var errs []error
	if !slices.Contains(stages, f.At) {
		errs = append(errs, fmt.Errorf("stage %q is unknown; use one of %v", f.At, stages))
	}
	if !slices.Contains(actions, f.Do) {
		errs = append(errs, fmt.Errorf("action %q is unknown; use one of %v", f.Do, actions))
	}
	if f.Do == ActionMalformed && !slices.Contains(malformations, f.Text) {
		errs = append(errs, fmt.Errorf("malformation %q is unknown; use one of %q", f.Text, malformations[1:]))
	}
	if f.Nth < 0 || f.Count < 0 || f.Bytes < 0 || f.Delay < 0 {
		errs = append(errs, errors.New("Nth, Count, Bytes and Delay must not be negative"))
	}
	halfAnswer := f.At == StageAnswer && f.Do == ActionHalfLine
	if slices.Contains(needsRequest, f.Do) && !slices.Contains(beforeAnswer, f.At) && !halfAnswer {
		errs = append(errs, fmt.Errorf("action %q needs a request to answer, which stage %q does not have; use one of %v", f.Do, f.At, beforeAnswer))
	}
	if f.Do == ActionRefuseVersion && f.At != StageInitialize && f.At != StageDiscover {
		errs = append(errs, fmt.Errorf("action %q works only at stage %q or %q", f.Do, StageInitialize, StageDiscover))
	}
	if (f.Do == ActionRepeatCursor || f.Do == ActionBadTool) && f.At != StageList {
		errs = append(errs, fmt.Errorf("action %q works only at stage %q", f.Do, StageList))
	}
	return errors.Join(errs...)
}

type faultFields Fault

// faultWire is the fault with its duration as JSON has it.
func faultWire(f *Fault) any {
	return &struct {
		*faultFields
		Delay *jsonDuration `json:"delay,omitzero"`
	}{(*faultFields)(f), (*jsonDuration)(&f.Delay)}
}

// MarshalJSON implements [json.Marshaler].
func (f Fault) MarshalJSON() ([]byte, error) { return json.Marshal(faultWire(&f)) }

// UnmarshalJSON implements [json.Unmarshaler].
func (f *Fault) UnmarshalJSON(data []byte) error {
	var read Fault
	if err := json.Unmarshal(data, faultWire(&read)); err != nil {
		return fmt.Errorf("reading a fault: %w", err)
	}
	*f = read
	return nil
}
