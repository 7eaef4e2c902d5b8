package peer

import "fmt"

// Kinds of messages.
const (
	messageHello    = iota + 1 // client → server: who I am
	messageWelcome             // server → client: who I am
	messageCall                // client → server
	messageCancel              // client → server: nobody waits for the call any longer
	messageResult              // server → client: ends a call
	messageFailure             // server → client: ends a call
	messageProgress            // server → client
	messageLog                 // server → client: a log message about the call
	messageQuestion            // server → client: what the MCP server asks of the caller
	messageWithdraw            // server → client: nobody waits for the answer any longer
	messageAnswer              // client → server
	messageBeat                // client → server, each second
	messageBeatBack            // server → client, as an answer
	// Since version 2, where they are asked for.
	messageTask   // server → client: ends a call, whose result is a task
	messageNotice // server → client: of a server
	// Ignored by nodes that do not know them.
	messageLeaving  // server → client: make no further calls here
	messageLastCall // client → server, as an answer
)

// version is the version of the protocol. A node speaks it and the one before: each end says its
// own, and the lower one is spoken. Since 2 there are requests other than calls, and a call of an
// unknown kind is refused; before, it ended the stream.
const version = 2

// hello is what both ends of a stream say first.
type hello struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
}

// tooLong is the error of a message that is longer than its kind may be; nil if it is not.
func tooLong(what byte, total, limit uint64) error {
	if total > limit {
		return fmt.Errorf("a message of kind %d with %d bytes", what, total)
	}
	return nil
}
