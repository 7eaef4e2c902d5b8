package peer

import "fmt"

// Kinds of messages.
const (
	messageHello    = iota + 1 // client → server: version and node of the client
	messageWelcome             // server → client: version and node of the server
	messageCall                // client → server
	messageCancel              // client → server: the caller has left
	messageResult              // server → client: ends a call
	messageFailure             // server → client: ends a call
	messageProgress            // server → client
	messageLog                 // server → client: a log message about the call
	messageQuestion            // server → client: a request of the MCP server to the caller
	messageWithdraw            // server → client: the call that asked has ended
	messageAnswer              // client → server
	messageBeat                // client → server, each second
	messageBeatBack            // server → client, as an answer to messageBeat
	// Since version 2, and only in calls that ask for them.
	messageTask   // server → client: ends a call, whose result is a task
	messageNotice // server → client: a notice of an MCP server
	// Ignored by nodes that do not know them.
	messageLeaving  // server → client: make no further calls here
	messageLastCall // client → server, as an answer to messageLeaving
)

// version is the version of the protocol. A node speaks it and the one before: each end names its own, and
// both use the lower one. Since version 2 there are requests other than calls, and a call of an unknown kind
// is refused; in version 1 it ended the stream.
const version = 2

// hello is the first message of both ends of a stream.
type hello struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
}

// tooLong returns an error if a message is longer than its kind may be.
func tooLong(what byte, total, limit uint64) error {
	if total > limit {
		return fmt.Errorf("a message of kind %d with %d bytes", what, total)
	}
	return nil
}
