package messages

// Limits bound what one server may cost this process. In each field 0 means
// the default.
type Limits struct {
	// Line is the longest message in bytes that is accepted from the server; a
	// longer one fails the call that it answers. Default 64 MiB, at most 1 GiB.
	Line int
	// Buffer is the most bytes that large messages (64 KiB or more) may hold at a
	// time, while they are read, and while results are decoded. One more message may
	// be beyond it; further ones wait, as a call's clock runs on. A message for which
	// there is no room within 3 s on a pipe is skipped, and its call fails with
	// ErrOverloaded. Default 64 MiB.
	Buffer int
	// Elements is the most JSON values in a result that is decoded; a result with
	// more fails its call with ErrProtocol, and CallRaw returns it all the same.
	// Results shorter than 64 KiB are not counted. Default 1,000,000.
	Elements int
	// Decoded is the most memory in bytes that a result may take once it is
	// decoded, estimated from its text; as for Elements. Default 256 MiB.
	Decoded int
	// Items is the most entries taken from each of the four lists. Default 10,000.
	Items int
	// Pages is the most pages followed in each list. Default 1,000.
	Pages int
	// Catalog is the most bytes kept of all four lists together, as the server
	// sent them. Default 256 MiB.
	Catalog int
	// InFlight is the most calls under way at once; further ones wait for their
	// turn. Default 1,024.
	InFlight int
	// Queue is how many calls may wait for their turn, first come first served;
	// further ones fail with ErrOverloaded at once. Their own clocks run. Default
	// 1,024; negative means none.
	Queue int
	// StderrLines is how many lines of stderr are kept: of more, the first third and
	// the last ones, with a line between them that says how many are missing.
	// Default 30.
	StderrLines int
}

// The defaults of [Limits].
const (
	DefaultLineLimit     = 64 << 20
	DefaultBufferLimit   = 64 << 20
	DefaultElementLimit  = 1_000_000
	DefaultDecodedLimit  = 256 << 20
	DefaultItemLimit     = 10_000
	DefaultPageLimit     = 1_000
	DefaultCatalogLimit  = 256 << 20
	DefaultInFlightLimit = 1_024
	DefaultQueueLimit    = 1_024
	DefaultStderrLines   = 30
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
	orInt(&l.Line, DefaultLineLimit)
	l.Line = min(l.Line, maxLineLimit)
	orInt(&l.Buffer, DefaultBufferLimit)
	orInt(&l.Elements, DefaultElementLimit)
	orInt(&l.Decoded, DefaultDecodedLimit)
	orInt(&l.Items, DefaultItemLimit)
	orInt(&l.Pages, DefaultPageLimit)
	orInt(&l.Catalog, DefaultCatalogLimit)
	orInt(&l.InFlight, DefaultInFlightLimit)
	if l.Queue == 0 {
		l.Queue = DefaultQueueLimit
	}
	orInt(&l.StderrLines, DefaultStderrLines)
	return l
}
