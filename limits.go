package mcpvisor

import "fmt"

// Limits bound what one server may cost this process. In each field 0 means the
// default. A negative value is an error of [ServerSpec.Validate], except in MaxQueued.
type Limits struct {
	// MaxMessageBytes is the longest JSON-RPC message accepted from the server, in
	// bytes. A longer message is skipped and counted in Discarded.Oversize; the call
	// that it answers fails with ErrProtocol. Default 64 MiB; more than 1 GiB is an error.
	MaxMessageBytes int
	// MaxBufferBytes bounds the memory of large messages (64 KiB or more) while they
	// are read and decoded, in bytes, all calls of the server together. One message
	// may exceed it, so that a large result is never impossible; further ones wait, and
	// the timeouts of their calls keep running. With Stdio or InMemory, a message that has
	// found no room after 3 s is skipped and its call fails with ErrOverloaded and
	// OutcomeAnswered. Default 64 MiB.
	MaxBufferBytes int
	// MaxElements bounds the JSON values (members, elements, scalars) in a result that
	// is decoded. A result with more fails its call with ErrProtocol; CallToolRaw
	// returns it undecoded. Results shorter than 64 KiB are not counted.
	// Default 1,000,000.
	MaxElements int
	// MaxDecodedBytes bounds the memory that a decoded result may take, in bytes,
	// estimated from its text before it is decoded. It applies as MaxElements does.
	// Default 256 MiB.
	MaxDecodedBytes int
	// MaxItems bounds the entries taken from each of the four lists (tools, resources,
	// resource templates, prompts). The rest is left out with a warning in the status.
	// Default 10,000.
	MaxItems int
	// MaxPages bounds the pages read of each list. The rest is left out with a warning in
	// the status. Default 1,000.
	MaxPages int
	// MaxCatalogBytes bounds the memory of all four lists together, in bytes of JSON
	// as the server sent them. The rest is left out with a warning in the status.
	// Default 256 MiB.
	MaxCatalogBytes int
	// MaxInFlight is how many calls the server works on at once. Further calls queue.
	// Default 1,024.
	MaxInFlight int
	// MaxQueued is how many calls may queue behind MaxInFlight, first come, first
	// served. Their timeouts run while they queue. Further calls fail at once with
	// ErrOverloaded. Calls that wait for a server that is not ready (facade.WithWaitReady)
	// are neither counted nor bounded. Default 1,024; a negative value means no queue. (In
	// a configuration file max_queued 0 means no queue, and no key means the default.)
	MaxQueued int
	// MaxStderrLines is how many lines of the server's stderr are kept for causes and
	// errors: the first third and the last two thirds, with a line between them that
	// counts the omitted ones. Default 30. At least one line is kept.
	MaxStderrLines int
}

// The defaults of [Limits].
const (
	DefaultMaxMessageBytes = 64 << 20
	DefaultMaxBufferBytes  = 64 << 20
	DefaultMaxElements     = 1_000_000
	DefaultMaxDecodedBytes = 256 << 20
	DefaultMaxItems        = 10_000
	DefaultMaxPages        = 1_000
	DefaultMaxCatalogBytes = 256 << 20
	DefaultMaxInFlight     = 1_024
	DefaultMaxQueued       = 1_024
	DefaultMaxStderrLines  = 30
)

// maxMessageBytes is the largest MaxMessageBytes: a length that fits a 32-bit int, with
// room for the buffers around it.
const maxMessageBytes = 1 << 30

func (l Limits) validate() (errs []error) {
	for _, field := range []struct {
		name  string
		value int
	}{
		{"MaxMessageBytes", l.MaxMessageBytes}, {"MaxBufferBytes", l.MaxBufferBytes},
		{"MaxElements", l.MaxElements}, {"MaxDecodedBytes", l.MaxDecodedBytes},
		{"MaxItems", l.MaxItems}, {"MaxPages", l.MaxPages}, {"MaxCatalogBytes", l.MaxCatalogBytes},
		{"MaxInFlight", l.MaxInFlight}, {"MaxStderrLines", l.MaxStderrLines},
	} {
		if field.value < 0 {
			errs = append(errs, fmt.Errorf("limits: Limits.%s is %d; set a positive number, or leave it 0 for the default", field.name, field.value))
		}
	}
	if l.MaxMessageBytes > maxMessageBytes {
		errs = append(errs, fmt.Errorf("limits: Limits.MaxMessageBytes is %d; set at most %d (1 GiB)", l.MaxMessageBytes, maxMessageBytes))
	}
	return errs
}

// withDefaults returns the limits with every zero field replaced by its default.
// Values that validate refuses are moved into their range.
func (l Limits) withDefaults() Limits {
	setDefault := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	setDefault(&l.MaxMessageBytes, DefaultMaxMessageBytes)
	l.MaxMessageBytes = min(l.MaxMessageBytes, maxMessageBytes)
	setDefault(&l.MaxBufferBytes, DefaultMaxBufferBytes)
	setDefault(&l.MaxElements, DefaultMaxElements)
	setDefault(&l.MaxDecodedBytes, DefaultMaxDecodedBytes)
	setDefault(&l.MaxItems, DefaultMaxItems)
	setDefault(&l.MaxPages, DefaultMaxPages)
	setDefault(&l.MaxCatalogBytes, DefaultMaxCatalogBytes)
	setDefault(&l.MaxInFlight, DefaultMaxInFlight)
	if l.MaxQueued == 0 { // negative switches the queue off
		l.MaxQueued = DefaultMaxQueued
	}
	setDefault(&l.MaxStderrLines, DefaultMaxStderrLines)
	return l
}
