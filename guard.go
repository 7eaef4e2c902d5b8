package mcpvisor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A CatalogGuard decides what of the offer of a server is listed; see facade.WithCatalogGuard and package lock.
type CatalogGuard interface {
	// Check is told what a server offers before anything of it is listed: after each start, also of a standby, a copy and a
	// replacement, after each change of its lists, and before lists that were kept are used. It returns what is wrong with
	// it. Several goroutines call it at the same time. If it panics, nothing of the offer is listed.
	Check(server string, offer Offer) []Finding
}

// Offer is what a server offers, as it sent it. Only secrets of its [ServerSpec] are masked; an entry with such a secret is
// in canonical form. The guard must not change it.
type Offer struct {
	// Instructions is the server's advice to a language model, shortened to 64 KiB.
	Instructions string
	// Tools, Prompts and Templates are in no promised order. A nil list is not read this time.
	Tools, Prompts, Templates []OfferEntry
}

// OfferEntry is one entry of a list. Name identifies it in its list: the server's own name, or the URI template.
type OfferEntry struct {
	Name string
	// Raw is the entry as the server sent it; see [Offer].
	Raw json.RawMessage
}

// Finding is something in the offer of a server that a [CatalogGuard] does not accept.
type Finding struct {
	// List is "tools", "prompts", "resourceTemplates" or "instructions".
	List string
	// Name is that of the entry; empty: all entries of the list.
	Name string
	// Text says what is wrong, and what to do. It becomes a [Warning] about the list.
	Text string
	// Listed: the finding is a warning alone, and its entry is listed.
	Listed bool
}

// A CallGuard decides whether calls of tools are sent; see facade.WithCallGuard and package rules.
type CallGuard interface {
	// CheckCall is asked about a call before the journal notes it and before anything is sent, and again before each further
	// attempt to send it. An error refuses the call with ErrDenied: it says why, and what to do, and is fit for a language
	// model. One that is an *Error with ErrOverloaded refuses it for its RetryAfter, with ErrOverloaded. CheckCall
	// may take long, such as until a person has decided, and must return when ctx ends. Several goroutines call it at the same
	// time. A panic refuses the call.
	CheckCall(ctx context.Context, call GuardedCall) (Permit, error)
}

// GuardedCall is a call of a tool as it will be sent, after all interceptors.
type GuardedCall struct {
	// Principal is the authenticated client of a gateway that makes the call; empty for calls of this program, and of clients
	// without a name.
	Principal string
	// Client is what the client says its name is, as in [facade/relay.WithClientName]; empty for calls of this program. Any
	// client can say any name.
	Client string
	// Server is the name of the server, and Tool the name by which the client lists the tool.
	Server, Tool string
	// Arguments are the bytes of the object that will be sent. Do not change them, and keep them only as a copy.
	Arguments json.RawMessage
	// InputResponses are the answers that a further round of the call carries (2026-07-28), an object by the keys of what the
	// server required; nil in the first round. What holds for Arguments holds for them. Answers that handlers give while the call
	// is in flight are part of it: CheckCall is not asked about them.
	InputResponses json.RawMessage
	// Definition is the tool as it is listed now; nil if the lists of the server are not known. Do not change it.
	Definition *mcp.Tool
	// Earlier is what CheckCall has returned for the last attempt to send this call; zero for the first one.
	Earlier Permit
}

// Permit is what a [CallGuard] remembers of a call between two attempts to send it. The zero Permit remembers nothing.
type Permit struct {
	// Digest says what was approved.
	Digest [32]byte
	// Expires is when the approval ends.
	Expires time.Time
}
