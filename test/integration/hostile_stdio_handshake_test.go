//go:build linux

package integration

import (
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// hurried is for starts that are to run into their bounds.
func hurried(s *mcpvisor.ServerSpec) {
	s.Timeouts.Negotiate, s.Timeouts.Start, s.Timeouts.List = 100*time.Millisecond, 350*time.Millisecond, 350*time.Millisecond
}

// doubtful is for servers that do not answer the first question.
func doubtful(s *mcpvisor.ServerSpec) { s.Timeouts.Negotiate = 100 * time.Millisecond }

// idle does nothing with the server.
func idle(*stdioRun) (*mcp.CallToolResult, error) { return nil, nil }

func permanent(v *stdioRun) {
	var cause *supervisor.Cause
	require.ErrorAs(v.t, v.failure, &cause)
	require.True(v.t, cause.Permanent, "trying again cannot help: %v", cause)
}

// The ways in which a start goes.
var (
	misconfigured = stdioRow{eras: auto, start: noStart(supervisor.CauseConfig), check: permanent}
	exits         = stdioRow{eras: auto, start: noStart(supervisor.CauseExit)}
	neverAnswers  = stdioRow{eras: auto, spec: hurried, start: noStart(supervisor.CauseTimeout)}
	opens         = stdioRow{eras: auto}
	opensLate     = stdioRow{eras: auto, spec: doubtful}
	refuses       = stdioRow{start: noStart(supervisor.CauseHandshake)}
	noVersion     = stdioRow{start: noStart(supervisor.CauseVersion), check: permanent}
)

func saidOnStderr(text string) func(*stdioRun) {
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
	"spawn/usage-2":        checked(exits, saidOnStderr("usage: server [--port n]")),
	"spawn/not-found":      checked(exits, saidOnStderr("mcptest-no-such-server")),
	"spawn/no-key":         checked(exits, saidOnStderr("HOSTILE_API_KEY is not set")),
	"spawn/segfault":       {eras: auto, start: noStart(supervisor.CauseSignal)},
	"spawn/killed":         {eras: auto, start: noStart(supervisor.CauseSignal)},
	"spawn/silent":         neverAnswers,
	"spawn/cat":            {eras: auto, spec: hurried, start: noStart(supervisor.CauseTimeout, supervisor.CauseHandshake)},
	"spawn/yes":            neverAnswers,
	"spawn/closed":         {eras: auto, start: noStart(supervisor.CauseClosed)},
	"spawn/wrapper":        opens,
	"spawn/pipeline":       opens,
	"spawn/background":     exits,
	"spawn/banner":         checked(opens, requireJunk),
	"spawn/banner-unended": checked(opensLate, requireJunk),
	"spawn/slow":           opensLate,
	"spawn/prompt":         checked(neverAnswers, saidOnStderr("messages are prefixed")),
	"spawn/http":           checked(neverAnswers, saidOnStderr("what is not JSON-RPC")),
	"spawn/framed":         checked(neverAnswers, saidOnStderr("Content-Length")),
	"spawn/stderr-only":    checked(neverAnswers, saidOnStderr("jsonrpc")),
	"spawn/late-exit":      exits,
	"spawn/rude-exit":      exits,
}

func inEra(r stdioRow, era mcpvisor.Era) stdioRow {
	return checked(r, func(v *stdioRun) { require.Equal(v.t, era, v.before.Session.Era) })
}

var stdioOpeningRows = map[string]stdioRow{
	"negotiation/hang":              inEra(opensLate, mcpvisor.EraLegacy),
	"negotiation/exit":              inEra(opens, mcpvisor.EraLegacy),
	"negotiation/killed":            inEra(opens, mcpvisor.EraLegacy),
	"negotiation/close":             inEra(opens, mcpvisor.EraLegacy),
	"negotiation/half-line":         inEra(opensLate, mcpvisor.EraLegacy),
	"negotiation/half-line-unended": neverAnswers,
	"negotiation/plain-text":        inEra(opensLate, mcpvisor.EraLegacy),
	"negotiation/null-id":           inEra(opensLate, mcpvisor.EraLegacy),
	"negotiation/odd-error":         inEra(opens, mcpvisor.EraLegacy),
	"negotiation/wrong-params":      inEra(opens, mcpvisor.EraLegacy),
	"negotiation/null":              inEra(opens, mcpvisor.EraLegacy),
	"negotiation/text":              inEra(opens, mcpvisor.EraLegacy),
	"negotiation/empty":             inEra(opens, mcpvisor.EraLegacy),
	"negotiation/as-initialize":     inEra(opens, mcpvisor.EraLegacy),
	"negotiation/no-versions":       inEra(opens, mcpvisor.EraLegacy),
	"negotiation/versions-text":     inEra(opens, mcpvisor.EraLegacy),
	"negotiation/broad":             inEra(opens, mcpvisor.EraLegacy),
	"negotiation/future":            inEra(opens, mcpvisor.EraLegacy),
	"negotiation/future-only":       {eras: auto, start: noStart(supervisor.CauseVersion), check: permanent},
	"negotiation/legacy-in-error":   inEra(opens, mcpvisor.EraLegacy),
	"negotiation/circle":            inEra(opens, mcpvisor.EraLegacy),
	"negotiation/late":              opensLate,
	"negotiation/twice":             inEra(opens, mcpvisor.EraModern),
	"negotiation/liar":              {eras: auto, start: noStart()},
	"negotiation/modern-only":       inEra(opens, mcpvisor.EraModern),

	"handshake/hang":                 {spec: hurried, start: noStart(supervisor.CauseTimeout)},
	"handshake/hang-stubborn":        {spec: hurried, start: noStart(supervisor.CauseTimeout)},
	"handshake/exit":                 checked(stdioRow{start: noStart(supervisor.CauseExit)}, saidOnStderr("no licence")),
	"handshake/exit-in-answer":       {start: noStart(supervisor.CauseExit)},
	"handshake/exit-initialized":     {start: noStart(supervisor.CauseExit)},
	"handshake/close-initialized":    {start: noStart(supervisor.CauseClosed)},
	"handshake/unknown-method":       refuses,
	"handshake/wrong-params":         {start: noStart(supervisor.CauseHandshake, supervisor.CauseVersion)},
	"handshake/error-text":           refuses,
	"handshake/neither":              {spec: hurried, start: noStart(supervisor.CauseHandshake)},
	"handshake/null-id":              {spec: hurried, start: noStart(supervisor.CauseHandshake)},
	"handshake/string-id":            harmless,
	"handshake/float-id":             harmless,
	"handshake/twice":                harmless,
	"handshake/null":                 {start: noStart(supervisor.CauseHandshake, supervisor.CauseVersion)},
	"handshake/empty":                {start: noStart(supervisor.CauseHandshake, supervisor.CauseVersion)},
	"handshake/array":                refuses,
	"handshake/version-unknown":      noVersion,
	"handshake/version-modern":       inEra(harmless, mcpvisor.EraModern),
	"handshake/version-number":       refuses,
	"handshake/version-null":         {start: noStart(supervisor.CauseHandshake, supervisor.CauseVersion)},
	"handshake/capabilities-missing": {act: idle, any: true, fate: useless, check: offersNothing},
	"handshake/capabilities-null":    {act: idle, any: true, fate: useless, check: offersNothing},
	"handshake/capabilities-array":   refuses,
	"handshake/capabilities-true":    refuses,
	"handshake/info-null":            harmless,
	"handshake/info-text":            refuses,
	"handshake/info-escapes": checked(harmless, func(v *stdioRun) {
		name := v.before.Session.ServerName
		for _, mark := range []string{"\x1b", "\a", "\n", "\u202e"} {
			require.NotContains(v.t, name, mark, "a name is fit to be shown")
		}
	}),
	"handshake/instructions-large":  harmless,
	"handshake/instructions-number": refuses,
	"handshake/deep":                refuses,
	"handshake/broad-capabilities":  checked(refuses, saysBroad),
	"handshake/broad-meta":          checked(refuses, saysBroad),
	"handshake/oversize": {spec: func(s *mcpvisor.ServerSpec) { s.Limits.MaxMessageBytes = 1 << 20; s.Timeouts.Start = 2 * time.Second },
		start: noStart(supervisor.CauseHandshake, supervisor.CauseProtocol)},
	"handshake/carriage-returns": {spec: hurried, start: noStart(supervisor.CauseTimeout)},
	"handshake/asks-first":       harmless,
	"handshake/notifies-first":   harmless,
}

// saysBroad: the error says that there was too much to decode.
func saysBroad(v *stdioRun) {
	require.Contains(v.t, v.failure.Error(), "the answer holds more than 10000 values")
}

// harmless is a row of the initialize era in which nothing goes wrong.
var harmless = stdioRow{}

func offersNothing(v *stdioRun) {
	require.Zero(v.t, v.before.Catalog.Tools)
	_, err := v.bad(nil)
	require.ErrorIs(v.t, err, mcpvisor.ErrUnknownTool)
}
