package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// The library's errors name what a Go program sets. Here the same is set in a
// file, or on the command line.
var (
	// inFile is a Go name before the key that does the same.
	inFile  = regexp.MustCompile(`\b[A-Z]\w*\.[A-Z]\w*, in a file `)
	groups  = regexp.MustCompile(`\b(Timeouts|Limits|Probe)\.([A-Z]\w*)`)
	phrases = strings.NewReplacer(
		`, or set WithTimeout for the call`, ``,
		`; leave Era empty`, `; remove "era"`,
		`or change Dir`, `or change "cwd"`,
		`give a Client that trusts it`, `set SSL_CERT_FILE to a file with its authority`,
		`set a handler for it, see WithElicitationHandler, WithSamplingHandler and WithRoots`, `use a client that can answer it`,
		`; Refresh reads its lists`, ``,
		`then call Restart or register it again`, `then try again`,
		`the server has no Auth`, `the server has no "auth"`,
		`the server's Auth cannot`, `the server's "auth" cannot`,
		`pass the URL that arrives there to FinishAuthorization`, `paste here the URL that arrives there`,
		` (HTTP.SSE)`, ``,
		`supervisor.Unlimited`, `"unlimited"`,
		`timeouts: Call and CallTotal are`, `timeouts: "call" and "hard_max" are`,
		`timeouts: Shutdown is`, `timeouts: "shutdown" is`,
		`remove Standby`, `remove "standby"`,
		`set Policy,`, `set "retry",`,
		`Command is empty`, `"command" is empty`,
		`MaxAttempts`, `"max_attempts"`,
		`StableAfter`, `"stable_after"`,
		`ParkEvery`, `"park"`,
		`ClientMetadataURL`, `"client_metadata_url"`,
		`ClientSecret`, `"client_secret"`,
		`ClientID`, `"client_id"`,
		`PrivateKey`, `"private_key_file"`,
		`RedirectURL`, `"redirect_url"`,
		`TokenEndpoint`, `"token_endpoint"`,
		`TokenWait is`, `"wait" is`,
		`FetchAssertion`, `"assertion_file"`,
		`FetchIDToken`, `"id_token_file"`,
	)
)

// configTerms puts the words of the command line and of configuration files for those
// of Go programs.
func configTerms(text string) string {
	text = inFile.ReplaceAllString(text, "")
	text = groups.ReplaceAllStringFunc(text, func(found string) string {
		group, field, _ := strings.Cut(found, ".")
		return `"` + snakeCase(field) + `" in "` + strings.ToLower(group) + `"`
	})
	return phrases.Replace(text)
}

// snakeCase is the key of a Go field in a configuration file.
func snakeCase(field string) string {
	var b strings.Builder
	for i, r := range field {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// statusInConfigTerms is a status in those words.
func statusInConfigTerms(s mcpvisor.ServerStatus) mcpvisor.ServerStatus {
	s.LastCause = causeInConfigTerms(s.LastCause)
	s.History = slices.Clone(s.History)
	for i := range s.History {
		s.History[i].Cause = causeInConfigTerms(s.History[i].Cause)
	}
	s.Catalog.Warnings = slices.Clone(s.Catalog.Warnings)
	for i, text := range s.Catalog.Warnings {
		s.Catalog.Warnings[i] = configTerms(text)
	}
	return s
}

func causeInConfigTerms(c *supervisor.Cause) *supervisor.Cause {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.Message = configTerms(c.Error())
	return c
}
