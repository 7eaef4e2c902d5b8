package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The library's errors name what a Go program sets: fields, options and methods.
// The user of the command line sets keys of a file, and options of a command.
// config.KeyTerms replaces the fields; these replace the rest.
var (
	// fieldOrKey matches a field in a text that names the key behind it, too.
	fieldOrKey = regexp.MustCompile(`\b[A-Z]\w*\.[A-Z]\w*, in a file `)

	// phrasePairs are texts of the library, each followed by its replacement.
	phrasePairs = []string{
		`, or set WithTimeout for the call`, ``,
		`set an HTTP.Client that trusts it`, `set SSL_CERT_FILE to a file with its authority`,
		`set a handler for it, see WithElicitationHandler, WithSamplingHandler, WithRoots and WithCallHandlers`, `use a client that can answer it (mcpvisor --fresh call asks on a terminal what a form or a URL needs)`,
		`; Refresh reads its lists`, ``,
		`; StartTask waits longer`, ``,
		`Client.ResolveKey`, `mcpvisor tasks resolve`,
		`a client with a journal; make it with facade.WithJournal`, `a journal; start mcpvisor run with --journal FILE`,
		`; raise MaxEntries or MaxBytes, or shorten Retention`, ``,
		`register it first`, `mcpvisor status lists the servers`,
		`; Tools lists them`, `; mcpvisor tools lists them`,
		`, or with Authorize of the client`, ``,
		`leave Era empty`, `remove "era"`,
		`, and Era is set to `, `, and "era" is set to `,
		`(Client.Authorize, or mcpvisor authorize `, `(mcpvisor authorize `,
		`then call Restart or register it again`, `then try again`,
		`set credentials, then unregister it and register it again`, `set credentials in its entry of the configuration`,
		`correct its configuration and register it again`, `correct its entry of the configuration, which is read by itself`,
		`pass the URL that arrives there to FinishAuthorization`, `paste here the URL that arrives there`,
		` (HTTP.SSE)`, ``,
		`FetchAssertion, AssertionFile and Enterprise are for grant`, `"assertion_file" and "enterprise" are for grant`,
		`needs one of AssertionFile, Enterprise and, in a program, FetchAssertion`, `needs one of "assertion_file" and "enterprise"`,
		`leave Era empty`, `leave "era" out`,
		`and Era is set to`, `and "era" is set to`,
		`supervisor.Unlimited`, `"unlimited"`,
		`set Config.GuardTicket and call guard.Main first in main, or set Config.AllowUnguarded`, `there is none on this system; start the node with --allow-unguarded if two of one may run for a while`,
	}
	phrases = strings.NewReplacer(phrasePairs...)
)

// ConfigTerms replaces the words of Go programs in a text by those of the command
// line and of configuration files.
func ConfigTerms(text string) string {
	text = fieldOrKey.ReplaceAllString(text, "")
	return config.KeyTerms(phrases.Replace(text))
}

// StatusInConfigTerms returns a status with its texts in those words.
func StatusInConfigTerms(s mcpvisor.ServerStatus) mcpvisor.ServerStatus {
	s.LastCause = CauseInConfigTerms(s.LastCause)
	s.History = slices.Clone(s.History)
	for i := range s.History {
		s.History[i].Cause = CauseInConfigTerms(s.History[i].Cause)
	}
	s.Catalog.Warnings = slices.Clone(s.Catalog.Warnings)
	for i := range s.Catalog.Warnings {
		s.Catalog.Warnings[i].Text = ConfigTerms(s.Catalog.Warnings[i].Text)
	}
	return s
}

// CauseInConfigTerms returns a copy of a cause with its text in those words.
func CauseInConfigTerms(c *supervisor.Cause) *supervisor.Cause {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.Message = ConfigTerms(c.Error())
	return c
}
