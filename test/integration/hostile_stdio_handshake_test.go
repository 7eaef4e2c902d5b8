//go:build linux

package integration

import (
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// shortStartTimeouts is for starts that end by a timeout.
func shortStartTimeouts(s *mcpvisor.ServerSpec) {
	s.Timeouts.Negotiate, s.Timeouts.Start, s.Timeouts.List = 100*time.Millisecond, 350*time.Millisecond, 350*time.Millisecond
}

// outputStartTimeouts are for servers that do not start and whose output counts: it has to
// come in time on a busy machine, too.
func outputStartTimeouts(s *mcpvisor.ServerSpec) {
	s.Timeouts.Negotiate, s.Timeouts.Start, s.Timeouts.List = 2*time.Second, 4*time.Second, 4*time.Second
}

// shortNegotiateTimeout is for servers that do not answer server/discover.
func shortNegotiateTimeout(s *mcpvisor.ServerSpec) { s.Timeouts.Negotiate = 100 * time.Millisecond }

// doNothing is an act for rows without a call.
func doNothing(*stdioRun) (*mcp.CallToolResult, error) { return nil, nil }

func requirePermanent(v *stdioRun) {
	var cause *supervisor.Cause
	require.ErrorAs(v.t, v.failure, &cause)
	require.True(v.t, cause.Permanent, "the cause is permanent: %v", cause)
}

// Rows about starts that several misbehaviours share.
var (
	misconfigured      = stdioRow{eras: autoEra, start: startFails(supervisor.CauseConfig), check: requirePermanent}
	exits              = stdioRow{eras: autoEra, start: startFails(supervisor.CauseExit)}
	neverAnswers       = stdioRow{eras: autoEra, spec: shortStartTimeouts, start: startFails(supervisor.CauseTimeout)}
	writesOtherThings  = stdioRow{eras: autoEra, spec: outputStartTimeouts, start: startFails(supervisor.CauseTimeout)}
	starts             = stdioRow{eras: autoEra}
	startsAfterTimeout = stdioRow{eras: autoEra, spec: shortNegotiateTimeout}
	handshakeRejected  = stdioRow{start: startFails(supervisor.CauseHandshake)}
	noVersion          = stdioRow{start: startFails(supervisor.CauseVersion), check: requirePermanent}
)

func errorContains(text string) func(*stdioRun) {
	return func(v *stdioRun) { require.Contains(v.t, v.failure.Error(), text) }
}

var stdioSpawnRows = map[string]stdioRow{
	"spawn/missing":              misconfigured,
	"spawn/not-in-path":          misconfigured,
	"spawn/directory":            misconfigured,
	"spawn/no-working-directory": misconfigured,
	"spawn/not-executable":       misconfigured,
	"spawn/no-interpreter":       misconfigured,
	"spawn/dangling-interpreter": misconfigured,
	"spawn/no-shebang":           misconfigured,
	"spawn/truncated":            misconfigured,
	"spawn/empty":                misconfigured,

	"spawn/good":           {eras: []mcpvisor.Era{mcpvisor.EraAuto, mcpvisor.EraLegacy, mcpvisor.EraModern}},
	"spawn/usage":          exits,
	"spawn/usage-2":        checked(exits, errorContains("usage: server [--port n]")),
	"spawn/not-found":      checked(exits, errorContains("mcptest-no-such-server")),
	"spawn/no-key":         checked(exits, errorContains("HOSTILE_API_KEY is not set")),
	"spawn/segfault":       {eras: autoEra, start: startFails(supervisor.CauseSignal)},
	"spawn/killed":         {eras: autoEra, start: startFails(supervisor.CauseSignal)},
	"spawn/silent":         neverAnswers,
	"spawn/cat":            {eras: autoEra, spec: shortStartTimeouts, start: startFails(supervisor.CauseTimeout, supervisor.CauseHandshake)},
	"spawn/yes":            neverAnswers,
	"spawn/closed":         {eras: autoEra, start: startFails(supervisor.CauseClosed)},
	"spawn/wrapper":        starts,
	"spawn/pipeline":       starts,
	"spawn/background":     exits,
	"spawn/banner":         checked(starts, requireJunk),
	"spawn/banner-unended": checked(startsAfterTimeout, requireJunk),
	"spawn/slow":           startsAfterTimeout,
	"spawn/prompt":         checked(writesOtherThings, errorContains("messages are prefixed")),
	"spawn/http":           checked(writesOtherThings, errorContains("what is not JSON-RPC")),
	"spawn/framed":         checked(writesOtherThings, errorContains("Content-Length")),
	"spawn/stderr-only":    checked(writesOtherThings, errorContains("jsonrpc")),
	"spawn/late-exit":      exits,
	"spawn/rude-exit":      exits,
}

func negotiates(r stdioRow, era mcpvisor.Era) stdioRow {
	return checked(r, func(v *stdioRun) { require.Equal(v.t, era, v.before.Session.Era) })
}

var stdioHandshakeRows = map[string]stdioRow{
	"negotiation/hang":              negotiates(startsAfterTimeout, mcpvisor.EraLegacy),
	"negotiation/exit":              negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/killed":            negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/close":             negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/half-line":         negotiates(startsAfterTimeout, mcpvisor.EraLegacy),
	"negotiation/half-line-unended": neverAnswers,
	"negotiation/plain-text":        negotiates(startsAfterTimeout, mcpvisor.EraLegacy),
	"negotiation/null-id":           negotiates(startsAfterTimeout, mcpvisor.EraLegacy),
	"negotiation/odd-error":         negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/wrong-params":      negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/null":              negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/text":              negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/empty":             negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/as-initialize":     negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/no-versions":       negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/versions-text":     negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/broad":             negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/future":            negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/future-only":       {eras: autoEra, start: startFails(supervisor.CauseVersion), check: requirePermanent},
	"negotiation/legacy-in-error":   negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/circle":            negotiates(starts, mcpvisor.EraLegacy),
	"negotiation/late":              startsAfterTimeout,
	"negotiation/twice":             negotiates(starts, mcpvisor.EraModern),
	"negotiation/liar":              {eras: autoEra, start: startFails()},
	"negotiation/modern-only":       negotiates(starts, mcpvisor.EraModern),

	"handshake/hang":                 {spec: shortStartTimeouts, start: startFails(supervisor.CauseTimeout)},
	"handshake/hang-stubborn":        {spec: shortStartTimeouts, start: startFails(supervisor.CauseTimeout)},
	"handshake/exit":                 checked(stdioRow{start: startFails(supervisor.CauseExit)}, errorContains("no licence")),
	"handshake/exit-in-answer":       {start: startFails(supervisor.CauseExit)},
	"handshake/exit-initialized":     {start: startFails(supervisor.CauseExit)},
	"handshake/close-initialized":    {start: startFails(supervisor.CauseClosed)},
	"handshake/unknown-method":       handshakeRejected,
	"handshake/wrong-params":         {start: startFails(supervisor.CauseHandshake, supervisor.CauseVersion)},
	"handshake/error-text":           handshakeRejected,
	"handshake/error-data":           checked(handshakeRejected, errorContains("much")),
	"handshake/neither":              {start: startFails(supervisor.CauseHandshake)},
	"handshake/null-id":              {start: startFails(supervisor.CauseHandshake)},
	"handshake/string-id":            harmless,
	"handshake/float-id":             harmless,
	"handshake/twice":                harmless,
	"handshake/null":                 {start: startFails(supervisor.CauseHandshake, supervisor.CauseVersion)},
	"handshake/empty":                {start: startFails(supervisor.CauseHandshake, supervisor.CauseVersion)},
	"handshake/array":                handshakeRejected,
	"handshake/version-unknown":      noVersion,
	"handshake/version-modern":       negotiates(harmless, mcpvisor.EraModern),
	"handshake/version-number":       handshakeRejected,
	"handshake/version-null":         {start: startFails(supervisor.CauseHandshake, supervisor.CauseVersion)},
	"handshake/capabilities-missing": {act: doNothing, anyResult: true, fate: unusable, check: requireNoTools},
	"handshake/capabilities-null":    {act: doNothing, anyResult: true, fate: unusable, check: requireNoTools},
	"handshake/capabilities-array":   handshakeRejected,
	"handshake/capabilities-true":    handshakeRejected,
	"handshake/info-null":            harmless,
	"handshake/info-text":            handshakeRejected,
	"handshake/info-escapes": checked(harmless, func(v *stdioRun) {
		name := v.before.Session.ServerName
		for _, mark := range []string{"\x1b", "\a", "\n", "\u202e"} {
			require.NotContains(v.t, name, mark, "a server name has no control characters")
		}
	}),
	"handshake/instructions-large":  harmless,
	"handshake/instructions-number": handshakeRejected,
	"handshake/deep":                handshakeRejected,
	"handshake/broad-capabilities":  checked(handshakeRejected, requireTooManyValues),
	"handshake/broad-meta":          checked(handshakeRejected, requireTooManyValues),
	"handshake/oversize": {spec: func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 1 << 20; s.Timeouts.Start = 2 * time.Second },
		start: startFails(supervisor.CauseHandshake, supervisor.CauseProtocol)},
	"handshake/carriage-returns": {spec: shortStartTimeouts, start: startFails(supervisor.CauseTimeout)},
	"handshake/asks-first":       harmless,
	"handshake/notifies-first":   harmless,
}

// requireTooManyValues requires that the error says that the answer holds too many
// values.
func requireTooManyValues(v *stdioRun) {
	require.Contains(v.t, v.failure.Error(), "the answer holds more than 10000 values")
}

// harmless is a row of the initialize era in which everything succeeds.
var harmless = stdioRow{}

func requireNoTools(v *stdioRun) {
	require.Zero(v.t, v.before.Catalog.Tools)
	_, err := v.callBadTool(nil)
	require.ErrorIs(v.t, err, mcpvisor.ErrUnknownTool)
}
