package house

import (
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forbidden are names that the code never uses, each with its reason. Only identifiers
// are checked, so prose may mention them.
var forbidden = map[string]string{
	"RestartDirective":              "a restart is a new actor; see docs/adr/0001-restart-is-a-new-actor.md",
	"ResumeDirective":               "an actor that panicked is stopped",
	"EscalateDirective":             "an actor that panicked is stopped",
	"NewExponentialBackoffStrategy": "its delays are linear and unbounded; the lifecycle decides delays",
	"NewRestartingStrategy":         "a restart is a new actor",
	"ReenterAfter":                  "its continuation runs on whatever the actor has become; send a message instead",
	"RequestFuture":                 "a future never ends with a context; reply on a channel",
	"NewSynchronizedDispatcher":     "it runs actors in their callers",
	"WithDefaultPrometheusProvider": "it takes the default ServeMux and a port of its own",
}

func TestForbiddenNames(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if !s.isGo() {
			continue
		}
		eachToken(s, func(line int, tok token.Token, name string) {
			if tok == token.IDENT {
				seen++
				require.Empty(t, forbidden[name], "%s:%d uses %s", s.path, line, name)
			}
		})
	}
	require.Greater(t, seen, 10_000, "identifiers are read")
}

// promises are marks of unfinished work, and machines are paths of one machine. Each is
// written so that it does not match itself.
var (
	promises = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	machines = regexp.MustCompile(`(^|[\s"'(=])/(work|root|home|Users)` + `/\w`)
)

func TestNoUnfinishedWork(t *testing.T) {
	require.Regexp(t, promises, "// TO"+"DO: later")
	for _, s := range sources(t) {
		require.False(t, promises.Match(s.text), "%s: %q", s.path, promises.Find(s.text))
	}
}

func TestNoMachinePaths(t *testing.T) {
	t.Parallel()
	require.Regexp(t, machines, "see /ro"+"ot/x")
	for _, s := range sources(t) {
		require.False(t, machines.Match(s.text), "%s: %q", s.path, machines.Find(s.text))
	}
}

// vague are words that hide who acts. Name the caller, the node, the reader or the operator instead, at
// the beginning of the sentence.
var vague = regexp.MustCompile(`(?i)\b(no` + `body|some` + `body|who` + `ever|who` + `m|an` + `ew|is` + ` none)\b`)

// TestPlainWords: vague words stay rare. What is left are names in values of tests, http.NoBody, and the license.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	const most = 20
	var found []string
	for _, s := range sources(t) {
		for line := range strings.Lines(string(s.text)) {
			if vague.MatchString(line) {
				found = append(found, s.path+": "+strings.TrimSpace(line))
			}
		}
	}
	require.LessOrEqual(t, len(found), most, "say it with a plain subject:\n%s", strings.Join(found, "\n"))
	require.Contains(t, strings.Join(found, "\n"), "LICENSE", "texts are read")
}
