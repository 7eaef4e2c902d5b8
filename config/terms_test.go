package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Fields of a Go program are replaced by keys of a file, other words stay.
func TestKeyTerms(t *testing.T) {
	for text, want := range map[string]string{
		"raise Timeouts.CallTotal":                       `raise "call_total" in "timeouts"`,
		"raise Timeouts.Call":                            `raise "call" in "timeouts"`,
		"raise Limits.MaxInFlight or Limits.MaxQueued":   `raise "max_in_flight" in "limits" or "max_queued" in "limits"`,
		"MaxAttempts is -3":                              `"max_attempts" in "retry" is -3`,
		"set ServerSpec.Policy.Base":                     `set "base" in "retry"`,
		"remove ServerSpec.Standby":                      `remove "standby"`,
		"grant needs ClientID":                           `grant needs "client_id" in "auth"`,
		"set HTTP.Auth.Enterprise.ClientID":              `set "client_id" in "enterprise" in "auth"`,
		"correct HTTP.URL":                               `correct "url"`,
		"change Stdio.Dir":                               `change "cwd"`,
		"Tools and the Policy of a URL":                  "Tools and the Policy of a URL",
		"Timeouts.Callback and MyLimits.MaxItems remain": `Timeouts.Callback and MyLimits."max_items" in "limits" remain`,
	} {
		require.Equal(t, want, KeyTerms(text), text)
	}
}
