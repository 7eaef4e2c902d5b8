package config

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/oauth/tokenstore"
)

// oauth reads "auth" or "oauth": true, false, or an object. The keys are ours
// and those of Claude Code ("oauth"), Cursor ("auth", in capitals) and Gemini.
func (e *entry) oauth(v *hujson.Value) {
	if lit, ok := literal(v, 't'); ok {
		e.http.Auth = nil
		if lit.Bool() {
			e.http.Auth = &mcpvisor.OAuth{}
		}
		return
	}
	o, on := &mcpvisor.OAuth{}, true
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
		"assertion_file": func(e *entry, v *hujson.Value) { o.Grant, o.FetchAssertion = mcpvisor.GrantJWTBearer, e.assertions(v) },
		"enterprise": func(e *entry, v *hujson.Value) {
			o.Grant, o.Enterprise = mcpvisor.GrantJWTBearer, e.enterprise(v)
		},
		"grant":   func(e *entry, v *hujson.Value) { e.text(v, (*string)(&o.Grant)) },
		"store":   func(e *entry, v *hujson.Value) { o.Store = e.tokenStore(v) },
		"wait":    func(e *entry, v *hujson.Value) { e.clock(v, &o.TokenWait) },
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

// tokenStore reads where tokens are kept: the keyring, memory, or a directory.
func (e *entry) tokenStore(v *hujson.Value) mcpvisor.TokenStore {
	var where string
	switch e.path(v, &where); where {
	case "":
		return nil
	case "keyring":
		return tokenstore.NewKeyring()
	case "memory":
		return tokenstore.NewMemory()
	}
	if !filepath.IsAbs(where) && !strings.ContainsAny(where, `/\`) {
		e.fail(v, "%q is no place for tokens; write \"keyring\", \"memory\" or a directory such as \"./tokens\"", where)
		return nil
	}
	store, err := tokenstore.NewFile(e.filePath(v))
	if err != nil {
		e.fail(v, "%v", err)
	}
	return store
}

// enterprise reads the identity provider of an organization.
func (e *entry) enterprise(v *hujson.Value) *mcpvisor.Enterprise {
	p := &mcpvisor.Enterprise{}
	e.object(v, `{"token_endpoint": "…", "client_id": "…", "id_token_file": "…"}`, map[string]func(*entry, *hujson.Value){
		"token_endpoint": func(e *entry, v *hujson.Value) { e.text(v, &p.TokenEndpoint) },
		"client_id":      func(e *entry, v *hujson.Value) { e.text(v, &p.ClientID) },
		"client_secret":  func(e *entry, v *hujson.Value) { e.text(v, &p.ClientSecret) },
		"id_token_file":  func(e *entry, v *hujson.Value) { p.FetchIDToken = e.renewed(v) },
	})
	return p
}

func (e *entry) assertions(v *hujson.Value) mcpvisor.AssertionFunc {
	read := e.renewed(v)
	if read == nil {
		return nil
	}
	return func(ctx context.Context, _ mcpvisor.AssertionRequest) (string, error) { return read(ctx) }
}

// renewed reads a file whenever it is asked: somebody keeps it fresh.
func (e *entry) renewed(v *hujson.Value) func(context.Context) (string, error) {
	path := e.filePath(v)
	if path == "" {
		return nil
	}
	return func(context.Context) (string, error) {
		text, err := os.ReadFile(path)
		return strings.TrimSpace(string(text)), err
	}
}

// fileText reads a file that a value names.
func (e *entry) fileText(v *hujson.Value) string {
	path := e.filePath(v)
	if path == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		e.fail(v, "the file cannot be read; create it, or correct the path")
	}
	return string(text)
}
