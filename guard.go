package mcpvisor

import "encoding/json"

// A CatalogGuard decides what of the offer of a server is listed; see facade.WithCatalogGuard and package lock.
type CatalogGuard interface {
	// Check is told what a server offers before anything of it is listed: after each start, also of a standby, a copy and a
	// replacement, after each change of its lists, and before lists that were kept are used. It returns what is wrong with
	// it. Several goroutines call it at the same time. If it panics, nothing of the offer is listed.
	Check(server string, offer Offer) []Finding
}

// Offer is what a server offers, as it sent it. The guard must not change it.
type Offer struct {
	// Instructions is the server's advice to a language model, shortened to 64 KiB.
	Instructions string
	// Tools, Prompts and Templates are in no promised order. A nil list is not read this time.
	Tools, Prompts, Templates []OfferEntry
}

// OfferEntry is one entry of a list. Name identifies it in its list: the server's own name, or the URI template.
type OfferEntry struct {
	Name string
	// Raw is the entry as the server sent it, byte for byte.
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
