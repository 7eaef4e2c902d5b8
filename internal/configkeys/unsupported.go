package configkeys

import "slices"

// unsupported are keys of other hosts that have an effect there and that mcpvisor does not have. Each row says what the
// server would lack, and what to write instead.
var unsupported = []Unsupported{
	{[]string{"proxy"}, `the server would be reached without this proxy; set HTTPS_PROXY where mcpvisor starts`},
	{[]string{"requiresOAuth"}, `the client would not log in; write "auth": true`},
	{[]string{"authProviderType", "targetAudience", "targetServiceAccount"}, `the server would get no credentials of Google; write a token into "headers", or set "auth"`},
	{[]string{"customUserVars"}, `the server would not get these values; write them into "headers" or "env", as ${VARIABLE}`},
	{[]string{"sandbox", "sandboxEnabled"}, `the program would run without a sandbox; name a program that makes one in "command", such as docker or bwrap`},
	{[]string{"settings", "config"}, `the server would get nothing of it; write its values into "args" or "env"`},
	{[]string{"remote"}, `the program would run on this machine; name a program that reaches the other one in "command", such as ssh`},
}

// Unsupported is a key of other hosts in the list of [AllUnsupported].
type Unsupported struct {
	Names []string
	// Lacks is a sentence about the server, without a full stop.
	Lacks string
}

// AllUnsupported lists the keys of other hosts that change what happens there and that mcpvisor does not have.
func AllUnsupported() []Unsupported { return unsupported }

// Lacks returns what a server would lack without an unsupported key. It reports false for every other key.
func Lacks(key string) (text string, ok bool) {
	for _, u := range unsupported {
		if slices.Contains(u.Names, key) {
			return u.Lacks, true
		}
	}
	return "", false
}
