package endpoint

import (
	"net/http"
	"net/url"
	"strings"
)

// postTarget is the address for POSTs on a session over HTTP+SSE.
type postTarget struct {
	url     *url.URL
	secrets *strings.Replacer // replaces the secrets of url, which authorize messages of the session
}

// SendPostsTo makes the endpoint send all later POSTs to target, which has its origin.
func (e *Endpoint) SendPostsTo(target *url.URL) {
	e.postTarget.Store(&postTarget{url: target, secrets: endpointSecrets(target, nil)})
}

// urlFor returns the address for requests with this method.
func (e *Endpoint) urlFor(method string) *url.URL {
	if p := e.postTarget.Load(); p != nil && method == http.MethodPost {
		return p.url
	}
	return e.URL
}
