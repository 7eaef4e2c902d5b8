package jsonrpc

import (
	"context"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
)

// A message within Limits.Line can hold millions of tiny values. Whatever is
// decoded here, or by the go-sdk, is measured first: the go-sdk decodes in
// goroutines that nothing can interrupt, and the end of a session waits for them.
var (
	// AnswerBounds are for answers to the go-sdk's own requests: initialize,
	// server/discover and ping. What they hold is kept as long as the session.
	AnswerBounds = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}
	// RequestBounds are for requests and notifications of the server.
	RequestBounds = jsonbound.Limits{Elements: 50_000, Depth: 500}
)

// maxURI is the longest URI of a resource that is listed, in bytes. A notification with a
// longer one is about nothing that is known.
const maxURI = 8 << 10

// maxNotification is the longest notification, other than a log message, that is read.
const maxNotification = 1 << 20

// CheckBounds reports why a value must not be decoded.
func CheckBounds(text []byte, limits jsonbound.Limits) error {
	_, err := jsonbound.Check(context.Background(), text, limits)
	return err
}
