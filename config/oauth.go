package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/messages"
)

// oauth reads "auth" or "oauth": true, false, or an object. The keys are ours
// and those of Claude Code ("oauth"), Cursor ("auth", in capitals) and Gemini.
func (e *entry) oauth(v *hujson.Value) {
	if lit, ok := literal(v, 't'); ok {
		e.http.Auth = nil
		if lit.Bool() {
			e.http.Auth = &messages.OAuth{}
		}
		return
	}
	o, on := &messages.OAuth{}, true
	text := func(into *string) func(*entry, *hujson.Value) {
		return func(e *entry, v *hujson.Value) { e.text(v, into) }
	}
	id, secret, redirect := text(&o.ClientID), text(&o.ClientSecret), text(&o.RedirectURL)
	scopes := func(e *entry, v *hujson.Value) { o.Scopes = e.scopes(v) }
	e.object(v, `{"client_id": "…"}, {} or true`, map[string]func(*entry, *hujson.Value){
		"client_id": id, "clientId": id, "CLIENT_ID": id,
		"client_secret": secret, "clientSecret": secret, "CLIENT_SECRET": secret,
		"private_key_file":    func(e *entry, v *hujson.Value) { o.PrivateKey = e.fileText(v) },
		"client_metadata_url": text(&o.ClientMetadataURL),
		"client_name":         text(&o.ClientName),
		"issuer":              text(&o.Issuer),
		"account":             text(&o.Account),
		"scopes":              scopes, "scope": scopes,
		"redirect_url": redirect, "redirectUri": redirect,
		"callbackPort": func(e *entry, v *hujson.Value) {
			port := 0
			if e.count(v, &port); port > 0 {
				o.RedirectURL = "http://localhost:" + strconv.Itoa(port) + "/callback" // as Claude Code has it registered
			}
		},
		"grant":   func(e *entry, v *hujson.Value) { e.text(v, (*string)(&o.Grant)) },
		"wait":    func(e *entry, v *hujson.Value) { e.clock(v, &o.Wait) },
		"enabled": func(e *entry, v *hujson.Value) { e.flag(v, &on) },
	})
	if on {
		e.http.Auth = o
	}
}

// scopes reads a list, or one string with spaces between them.
func (e *entry) scopes(v *hujson.Value) []string {
	if _, ok := literal(v, '"'); !ok {
		return e.texts(v)
	}
	var text string
	e.text(v, &text)
	return strings.Fields(text)
}

// fileText reads a file that a value names.
func (e *entry) fileText(v *hujson.Value) string {
	var path string
	if e.path(v, &path); path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.r.workspace, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		e.fail(v, "the file cannot be read; create it, or correct the path")
	}
	return string(text)
}
