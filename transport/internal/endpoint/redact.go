package endpoint

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/transport/internal/redact"
)

// CleanText makes a server's text safe to show: one line, without control characters and
// without the secrets of the endpoint. Servers often repeat the token that they reject.
func (e *Endpoint) CleanText(text string) string { return display.Line(e.Redact(text)) }

// Redact removes secrets from a text: those of the ServerSpec, those of the address for
// POSTs, and the access tokens.
func (e *Endpoint) Redact(text string) string {
	text = e.secrets.Replace(text)
	if p := e.postTarget.Load(); p != nil {
		text = p.secrets.Replace(text)
	}
	if e.Auth != nil {
		text = e.Auth.Redact(text)
	}
	return text
}

// CleanError removes the secrets of the endpoint from the text of an error. An error
// whose text contains no secret is returned unchanged.
func (e *Endpoint) CleanError(err error) error { return redact.Redactor(e.Redact).Error(err) }

// CleanJSON removes the secrets of the endpoint from a JSON value.
func (e *Endpoint) CleanJSON(raw json.RawMessage) json.RawMessage {
	return redact.Redactor(e.Redact).JSON(raw)
}

// endpointSecrets makes a Replacer for what must not be shown: user, password and query
// of the URL, the tokens in its path, the values of the headers, and secrets.
func endpointSecrets(u *url.URL, headers map[string]string, secrets ...string) *strings.Replacer {
	var found secret.List
	found.Add(secrets...)
	found.AddEndpoint(u)
	for name, value := range headers {
		found.AddHeader(name, value)
	}
	return found.Replacer()
}

// basicToken returns the credential of the Basic scheme (RFC 7617).
func basicToken(name, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(name + ":" + password))
}
