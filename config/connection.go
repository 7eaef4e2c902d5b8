package config

import (
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
)

// readTLS reads how the connection to a server over HTTP is secured.
func (e *entry) readTLS(v *hujson.Value) {
	e.tls = mcpvisor.TLS{}
	e.readObject(v, `{"ca": "ca.pem"}`, tlsRows)
	e.http.TLS = new(e.tls)
}

// socketURL is the URL of requests through a socket that "url" names.
const socketURL = "http://localhost/mcp"

// readSocketURL reads a "url" that names a Unix socket.
func (e *entry) readSocketURL(at *hujson.Value) {
	rest, ok := strings.CutPrefix(e.http.URL, "unix:")
	switch path := strings.TrimPrefix(rest, "//"); {
	case !ok:
	case e.http.Socket != "":
		e.failServer(at, "cannot be reached: \"url\" and \"socket\" both name a socket; write the URL of requests into \"url\", as in %s", socketURL)
	case !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#%"):
		e.failServer(at, "cannot be reached: its \"url\" names no socket; write it as unix:///run/mcp.sock, or the path into \"socket\" and a \"url\" such as %s", socketURL)
	default:
		e.http.Socket, e.http.URL = path, socketURL
	}
}

// refuseConnection reports keys that are for servers over HTTP alone, by warn or fail.
func (e *entry) refuseConnection(report func(*hujson.Value, string, ...any), at *hujson.Value) bool {
	if e.http.Socket == "" && e.http.TLS == nil {
		return false
	}
	report(at, "\"socket\" and \"tls\" cannot be used here, because they are for a server over HTTP; remove them")
	return true
}
