package facade

import "github.com/mcpvisor/mcpvisor/messages"

// Sentinels for errors.Is; see messages.ErrorKind for when each occurs.
var (
	ErrUnknownServer = messages.ErrUnknownServer
	ErrUnknownTool   = messages.ErrUnknownTool
	ErrUnavailable   = messages.ErrUnavailable
	ErrCrashed       = messages.ErrCrashed
	ErrEvicted       = messages.ErrEvicted
	ErrTimeout       = messages.ErrTimeout
	ErrCanceled      = messages.ErrCanceled
	ErrOverloaded    = messages.ErrOverloaded
	ErrClosed        = messages.ErrClosed
	ErrProtocol      = messages.ErrProtocol
	ErrRPC           = messages.ErrRPC
	ErrAuthRequired  = messages.ErrAuthRequired
	ErrInvalid       = messages.ErrInvalid
	ErrInputRequired = messages.ErrInputRequired
	ErrExists        = messages.ErrExists
	ErrLeftBehind    = messages.ErrLeftBehind
	ErrStart         = messages.ErrStart
)

type (
	// ErrorKind classifies an [Error], as its sentinel does; see [messages.ErrorKind].
	ErrorKind = messages.ErrorKind
	// Outcome says what is known about a request that ended in an error.
	Outcome = messages.Outcome
)

// The outcomes of a request that ended in an error.
const (
	// NotSent: the server has not seen the request. Repeating it is safe.
	NotSent = messages.OutcomeNotSent
	// Unknown: the request, or part of it, left; whether it had an effect is not
	// known. Repeat it only if that does no harm.
	Unknown = messages.OutcomeUnknown
	// Answered: the server answered, and the answer is the error.
	Answered = messages.OutcomeAnswered
)
