package api

// Program is what the program that serves a page adds to it; see web.WithProgram. Each function is called by several
// goroutines at once and must not block; nil adds nothing.
type Program struct {
	// Attention adds to what needs attention, such as a configuration file that cannot be used. It is called for each status.
	Attention func() []Attention
	// Fleet is what the client knows as a node of a fleet: which nodes there are, and which of them runs each server.
	// nil: the client is no node of one.
	Fleet func() FleetStatus
	// Approvals are the calls that wait for a decision, the oldest first, and Decide decides about one of them; its error says
	// that it is not open. nil: no call waits.
	Approvals func() []Approval
	Decide    func(id string, approve bool, reason string) error
	// Leaving lets /readyz answer as after the Close of the client once it returns true: a program that ends its work
	// first says so, and should get no new one.
	Leaving func() bool
	// Terms replaces words in every text about what failed, and what to do about it: in causes, events, errors, and what
	// needs attention. The library's texts name what a Go program sets, such as Timeouts.Start.
	Terms func(text string) string
	// Mask hides in what a server says about its tools the secrets that it is known to repeat. It gets texts, and JSON.
	Mask func(server, text string) string
	// Change says how a registration differs from the one before of the same name, in one line without secrets; empty if
	// it is not known. It is added to the event of the registration.
	Change func(server string, gen uint64) string
}
