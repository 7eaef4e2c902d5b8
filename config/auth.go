package config

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/headerauth"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
	"github.com/mcpvisor/mcpvisor/oauth"
)

// readAuth reads true, false, or an object.
func (e *entry) readAuth(v *hujson.Value) {
	e.oauth, e.oauthEnabled = oauth.Config{}, true
	if lit, ok := literal(v, 't'); ok {
		e.oauthEnabled = lit.Bool()
	} else {
		e.readObject(v, `{"client_id": "…"}, {} or true`, authRows)
	}
	e.http.Auth = nil
	if e.oauthEnabled {
		e.http.Auth = new(e.oauth)
	}
}

// readHeadersCommand reads a command line for the shell, or a list of a program and its arguments.
func (e *entry) readHeadersCommand(v *hujson.Value) {
	var command []string
	if _, ok := literal(v, '"'); ok {
		var line string
		if e.readText(v, &line); strings.TrimSpace(line) != "" {
			command = append(slices.Clone(shell), line)
		}
	} else {
		command = e.readList(v)
	}
	if len(command) == 0 || command[0] == "" {
		e.fail(v, "%q cannot be used, because it is empty; name the program to run", e.key)
		return
	}
	e.headerSource = &headerauth.Source{Command: command, Dir: e.p.text.workspace}
}

// shell runs a command line.
var shell = func() []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/C"}
	}
	return []string{"/bin/sh", "-c"}
}()

// setAuth makes the Auth of "headers_command". The variables are those that Claude Code sets.
func (e *entry) setAuth(at *hujson.Value) {
	switch {
	case e.headerSource == nil:
	case e.http.Auth != nil:
		e.failServer(at, "has both \"auth\" and \"headers_command\"; keep one of them")
	default:
		e.headerSource.Env = map[string]string{"CLAUDE_CODE_MCP_SERVER_NAME": e.name, "CLAUDE_CODE_MCP_SERVER_URL": e.http.URL}
		e.http.Auth = e.headerSource
	}
}

// authKey is the key that set the Auth.
func (e *entry) authKey() string {
	if e.headerSource != nil {
		return "headers_command"
	}
	return "auth"
}

// readScopes reads a list, or one string with spaces between the scopes.
func (e *entry) readScopes(v *hujson.Value) []string {
	if _, ok := literal(v, '"'); !ok {
		return e.readList(v)
	}
	var text string
	e.readText(v, &text)
	return strings.Fields(text)
}

// readResource reads a URL, or false.
func (e *entry) readResource(v *hujson.Value) {
	switch lit, isBool := literal(v, 't'); {
	case !isBool:
		e.readText(v, &e.oauth.Resource)
	case lit.Bool():
		e.failType(v, "a URL or false", "the URL in double quotes")
	default:
		e.oauth.OmitResource = true
	}
}

// readCallbackPort reads the port of the redirect URL that Claude Code registers.
func (e *entry) readCallbackPort(v *hujson.Value) {
	port := 0
	if e.readCount(v, &port); port > 0 {
		e.oauth.RedirectURL = "http://localhost:" + strconv.Itoa(port) + "/callback"
	}
}

// readTokenStore reads where tokens are kept: the keyring, memory, or a directory.
func (e *entry) readTokenStore(v *hujson.Value) oauth.TokenStore {
	shown, ok := e.readString(v)
	if !ok {
		return nil
	}
	var where string
	switch e.readPath(v, &where); where {
	case "":
		return nil
	case "keyring":
		return oauth.NewKeyringStore()
	case "memory":
		return memoryTokens
	}
	if !filepath.IsAbs(where) && !strings.ContainsAny(where, `/\`) {
		e.fail(v, "%q is %q, which is not a place for tokens; write \"keyring\", \"memory\" or a directory such as \"./tokens\"", e.key, shown)
		return nil
	}
	store, err := oauth.NewFileStore(e.readFilePath(v))
	if err != nil {
		e.fail(v, "the directory of tokens that %q names cannot be used; correct the path: %v", e.key, err)
	}
	return store
}

// readEnterprise reads the identity provider of an organization.
func (e *entry) readEnterprise(v *hujson.Value) {
	e.enterprise = oauth.Enterprise{}
	e.readObject(v, `{"token_endpoint": "…", "client_id": "…", "id_token_file": "…"}`, enterpriseRows)
	e.oauth.Grant, e.oauth.Enterprise = oauth.GrantJWTBearer, new(e.enterprise)
}

// memoryTokens is the store of all entries with the store "memory", so that specs of equal
// entries are equal. Entries for one URL and account share their tokens, as with the other
// stores.
var memoryTokens = oauth.NewMemoryStore()

// readFile returns the content of the file that a value names.
func (e *entry) readFile(v *hujson.Value) string {
	path := e.readFilePath(v)
	if path == "" {
		return ""
	}
	text, err := regularfile.Read(path, maxSize)
	if err != nil {
		e.fail(v, "the file that %q names cannot be read; create it, or correct the path", e.key)
		return ""
	}
	return string(text)
}
