package mcpvisor

// Limits bound what one server may cost this process. In each field 0 means
// the default.
type Limits struct {
	// MaxMessageBytes is the longest message in bytes that is accepted from the server; a
	// longer one fails the call that it answers. Default 64 MiB, at most 1 GiB.
	MaxMessageBytes int
	// MaxBufferBytes is the most bytes that large messages (64 KiB or more) may hold at a
	// time, while they are read, and while results are decoded. One more message may
	// be beyond it; further ones wait, as a call's clock runs on. A message for which
	// there is no room within 3 s on a pipe is skipped, and its call fails with
	// ErrOverloaded. Default 64 MiB.
	MaxBufferBytes int
	// MaxElements is the most JSON values in a result that is decoded; a result with
	// more fails its call with ErrProtocol, and CallRaw returns it all the same.
	// Results shorter than 64 KiB are not counted. Default 1,000,000.
	MaxElements int
	// MaxDecodedBytes is the most memory in bytes that a result may take once it is
	// decoded, estimated from its text; as for Elements. Default 256 MiB.
	MaxDecodedBytes int
	// MaxItems is the most entries taken from each of the four lists. Default 10,000.
	MaxItems int
	// MaxPages is the most pages followed in each list. Default 1,000.
	MaxPages int
	// MaxCatalogBytes is the most bytes kept of all four lists together, as the server
	// sent them. Default 256 MiB.
	MaxCatalogBytes int
	// MaxInFlight is the most calls under way at once; further ones wait for their
	// turn. Default 1,024.
	MaxInFlight int
	// MaxQueued is how many calls may wait for their turn, first come first served;
	// further ones fail with ErrOverloaded at once. Their own clocks run. Default
	// 1,024; negative means none.
	MaxQueued int
	// MaxStderrLines is how many lines of stderr are kept: of more, the first third and
	// the last ones, with a line between them that says how many are missing.
	// Default 30.
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

// maxLineLimit is what a larger Line counts as: a length that fits an int of
// 32 bits, with room for the buffers around it.
const maxLineLimit = 1 << 30

// withDefaults returns the limits with every zero field replaced by its default.
func (l Limits) withDefaults() Limits {
	orInt := func(n *int, def int) {
		if *n <= 0 {
			*n = def
		}
	}
	orInt(&l.MaxMessageBytes, DefaultMaxMessageBytes)
	l.MaxMessageBytes = min(l.MaxMessageBytes, maxLineLimit)
	orInt(&l.MaxBufferBytes, DefaultMaxBufferBytes)
	orInt(&l.MaxElements, DefaultMaxElements)
	orInt(&l.MaxDecodedBytes, DefaultMaxDecodedBytes)
	orInt(&l.MaxItems, DefaultMaxItems)
	orInt(&l.MaxPages, DefaultMaxPages)
	orInt(&l.MaxCatalogBytes, DefaultMaxCatalogBytes)
	orInt(&l.MaxInFlight, DefaultMaxInFlight)
	if l.MaxQueued == 0 {
		l.MaxQueued = DefaultMaxQueued
	}
	orInt(&l.MaxStderrLines, DefaultMaxStderrLines)
	return l
}
