package jsonrpc

import (
	"context"

	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
)

// A message within Limits.MaxMessageBytes can hold millions of tiny values. Each value is
// measured before it is decoded, here or by the go-sdk. The go-sdk decodes in goroutines
// that cannot be interrupted, and the end of a session waits for them.
var (
	// AnswerBounds are for answers to requests of the go-sdk: initialize,
	// server/discover and ping. The session keeps what they hold until its end.
	AnswerBounds = jsonbound.Limits{Elements: 10_000, Depth: 500, Bytes: 8 << 20}
	// RequestBounds are for requests and notifications that the server sends.
	RequestBounds = jsonbound.Limits{Elements: 50_000, Depth: 500}
)

// maxURI is the longest URI of a listed resource, in bytes (see package discovery). A
// notification with a longer URI concerns no resource of the catalog.
const maxURI = 8 << 10

// maxNotification bounds the parameters of one notification, in bytes. Log messages may be
// longer, because only their beginning is read.
const maxNotification = 1 << 20

// CheckBounds returns why a value must not be decoded; nil if it may be.
func CheckBounds(text []byte, limits jsonbound.Limits) error {
	_, err := jsonbound.Check(context.Background(), text, limits)
	return err
}
