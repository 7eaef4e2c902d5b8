package transport

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// secretLength is the shortest value that is worth hiding in a text: a shorter
// one would hide half of the text instead.
const secretLength = 6

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

// cleanError hides secrets in an error. One that holds none stays what it is.
func (e *endpoint) cleanError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if hidden := e.hide(text); hidden != text {
		return errors.New(hidden)
	}
	return err
}

// cleanJSON hides secrets in a JSON value, however its strings are escaped. A
// value that holds none stays as it is, byte for byte.
func (e *endpoint) cleanJSON(raw json.RawMessage) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) == nil {
		if hidden, changed := e.cleanValue(value); changed {
			raw, _ = json.Marshal(hidden) // it was JSON a moment ago
		}
	}
	if hidden := e.hide(string(raw)); hidden != string(raw) {
		if raw = json.RawMessage(hidden); !json.Valid(raw) { // a number, as it were
			raw = json.RawMessage(`"***"`)
		}
	}
	return raw
}

func (e *endpoint) cleanValue(value any) (hidden any, changed bool) {
	switch v := value.(type) {
	case string:
		s := e.hide(v)
		return s, s != v
	case []any:
		for i, item := range v {
			one, yes := e.cleanValue(item)
			v[i], changed = one, changed || yes
		}
		return v, changed
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, item := range v {
			one, yes := e.cleanValue(item)
			safe := e.hide(name)
			object[safe], changed = one, changed || yes || safe != name
		}
		return object, changed
	}
	return value, false
}

// secretsOf finds what must not be shown: user, password and query of the URL
// and the values of the headers, in the forms in which they travel.
func secretsOf(u *url.URL, headers map[string]string) *strings.Replacer {
	var secrets []string
	hide := func(values ...string) {
		for _, s := range values {
			if len(s) < secretLength {
				continue
			}
			secrets = append(secrets, s)
			// What is no JSON on the whole may still hold a piece of it.
			if quoted, err := json.Marshal(s); err == nil {
				inner := string(quoted[1 : len(quoted)-1])
				secrets = append(secrets, inner, strings.ReplaceAll(inner, "/", `\/`))
			}
		}
	}
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
	slices.Sort(secrets)
	secrets = slices.Compact(secrets)
	// The longest first: what is left of a secret is one too.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, "***")
	}
	return strings.NewReplacer(pairs...)
}

// basic is the token of the Basic scheme (RFC 7617).
func basic(name, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(name + ":" + password))
}
