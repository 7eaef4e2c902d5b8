package transport

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// clean makes a text that came from elsewhere fit to be shown: on one line, and
// without the secrets of the endpoint. Servers like to repeat the token that
// they refuse.
func (e *endpoint) clean(text string) string { return plain(e.hide(text)) }

// hide replaces secrets: those of the spec, and the tokens that came since.
func (e *endpoint) hide(text string) string {
	text = e.secrets.Replace(text)
	if e.auth != nil {
		text = e.auth.Hide(text)
	}
	return text
}

func (e *endpoint) cleanError(err error) error { return veil(e.hide).error(err) }

func (e *endpoint) cleanJSON(raw json.RawMessage) json.RawMessage { return veil(e.hide).json(raw) }

// secretsOf finds what must not be shown: user, password and query of the URL
// and the values of the headers, in the forms in which they travel.
func secretsOf(u *url.URL, headers map[string]string) *strings.Replacer {
	var found secretList
	hide := found.add
	hide(u.RawQuery)
	for _, values := range u.Query() {
		for _, v := range values {
			hide(v, url.QueryEscape(v))
		}
	}
	if u.User != nil {
		name := u.User.Username()
		password, _ := u.User.Password()
		hide(name, url.PathEscape(name), password, url.PathEscape(password), url.QueryEscape(password), u.User.String())
		hide(basic(name, password))
	}
	for _, v := range headers {
		hide(v)
		scheme, token, ok := strings.Cut(v, " ") // "Bearer token"
		if !ok {
			continue
		}
		hide(token)
		if login, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(login), ":")
			hide(string(login), password)
		}
	}
	return found.replacer()
}

// basic is the token of the Basic scheme (RFC 7617).
func basic(name, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(name + ":" + password))
}
