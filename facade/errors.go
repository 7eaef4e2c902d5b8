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
	ErrStart         = messages.ErrStart
)

// Outcomes of a request that ended in an error.
const (
	NotSent  = messages.NotSent
	Unknown  = messages.Unknown
	Answered = messages.Answered
)
