package house

import (
	"go/scanner"
	"go/token"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// forbidden names are never used in code, each for its reason. The words are
// looked for among the identifiers, so prose may speak of them.
var forbidden = map[string]string{
	"RestartDirective":              "a restart is a new actor; see docs/adr/0001-restart-is-a-new-actor.md",
	"ResumeDirective":               "an actor that panicked is stopped",
	"EscalateDirective":             "an actor that panicked is stopped where it stands",
	"NewExponentialBackoffStrategy": "it is linear, has no cap and revives what was stopped; delays are the lifecycle's",
	"NewRestartingStrategy":         "a restart is a new actor",
	"ReenterAfter":                  "its continuation runs on whatever the actor has become; send a letter instead",
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
		for _, name := range identifiers(s) {
			seen++
			reason, bad := forbidden[name]
			require.False(t, bad, "%s uses %s: %s", s.path, name, reason)
		}
	}
	require.Greater(t, seen, 10_000, "identifiers are read")
}

// identifiers are the names in a file's code, without comments and strings.
func identifiers(s source) (names []string) {
	var sc scanner.Scanner
	file := token.NewFileSet().AddFile(s.path, -1, len(s.text))
	sc.Init(file, s.text, nil, 0)
	for {
		switch _, tok, lit := sc.Scan(); tok {
		case token.EOF:
			return names
		case token.IDENT:
			names = append(names, lit)
		}
	}
}

// promises are marks of work that was put off, and machines are paths that
// exist on one machine only. Each is written here so that it does not match
// itself.
var (
	promises = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	machines = regexp.MustCompile(`(^|[\s"'(=])/(work|root|home|Users)` + `/\w`)
)

func TestNothingIsPutOff(t *testing.T) {
	require.Regexp(t, promises, "// TO"+"DO: later")
	for _, s := range sources(t) {
		require.False(t, promises.Match(s.text), "%s: %q", s.path, promises.Find(s.text))
	}
}

func TestNoMachineIsNamed(t *testing.T) {
	require.Regexp(t, machines, "see /ro"+"ot/x")
	for _, s := range sources(t) {
		require.False(t, machines.Match(s.text), "%s: %q", s.path, machines.Find(s.text))
	}
}
