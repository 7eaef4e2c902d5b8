package mcpvisor

// AuthRequired is the error of a server that cannot be used until the user consents.
// errors.As finds it in an [Error] of KindAuthRequired. It must not be changed.
type AuthRequired struct {
	// URL is the authorization URL for the user's browser. Pass the URL of the redirect
	// to Client.FinishAuthorization. Client.Authorize makes a URL of its own. Empty if no
	// URL could be made; Err then says why. The URL stays valid for 15 minutes.
	URL string
	// Resource is the resource identifier of the MCP server.
	Resource string
	// Issuer is its authorization server; empty if it was not found.
	Issuer string
	// Scopes are the scopes that the URL requests.
	Scopes []string
	// Reason says what happened, for example "the server requires more scopes than the
	// token has".
	Reason string
	// Err is why there is no URL, or why an earlier attempt failed; nil: neither.
	Err error
}

// Error implements error. It does not contain the URL, which is for the user and not
// for logs.
func (a *AuthRequired) Error() string {
	text := a.Reason
	if text == "" {
		text = "the server requires authorization"
	}
	if a.Err != nil {
		text += ": " + a.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (a *AuthRequired) Unwrap() error { return a.Err }
