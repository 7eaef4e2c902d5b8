package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// tokenParameter is the query parameter that brings the token to the page once.
const tokenParameter = "token"

// sameSecret compares two secrets in a time that does not depend on them.
func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// hasToken reports whether a request is allowed to see the page: no token is required, or
// it has the token in a header, or the cookie that stands for it.
func (h *Handler) hasToken(r *http.Request) bool {
	if !h.opts.tokenSet {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && sameSecret(strings.TrimSpace(token), h.opts.token) {
		return true
	}
	cookie, err := r.Cookie(h.cookieName())
	return err == nil && sameSecret(cookie.Value, h.cookieValue())
}

// bringsToken reports whether a request for the page has the right token in its address.
func (h *Handler) bringsToken(r *http.Request) bool {
	return h.opts.tokenSet && r.Method == http.MethodGet && r.URL.Path == "/" &&
		sameSecret(r.URL.Query().Get(tokenParameter), h.opts.token)
}

// acceptToken turns the token in the address of the page into a cookie, and redirects to
// the address without it. It reports whether it answered. The cookie is sent with links of
// other sites, too, so that the link with the token works in a mail; a GET changes nothing,
// and POSTs of other sites are refused.
func (h *Handler) acceptToken(w http.ResponseWriter, r *http.Request) bool {
	if !h.bringsToken(r) {
		return false
	}
	requested, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(requested, "/") || strings.ContainsAny(requested, ";") {
		requested = "/"
	}
	http.SetCookie(w, &http.Cookie{Name: h.cookieName(), Value: h.cookieValue(), Path: requested,
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode})
	query := r.URL.Query()
	query.Del(tokenParameter)
	location := "./"
	if len(query) > 0 {
		location += "?" + query.Encode()
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
	return true
}

// cookieName depends on the token, because browsers share the cookies of a host between
// its ports: two pages on one machine keep theirs apart.
func (h *Handler) cookieName() string { return "mcpvisor_" + digest("name", h.opts.token)[:12] }

// cookieValue stands for the token. The token cannot be computed from it.
func (h *Handler) cookieValue() string { return digest("value", h.opts.token) }

func digest(purpose, token string) string {
	sum := sha256.Sum256([]byte("mcpvisor web " + purpose + "\x00" + token))
	return hex.EncodeToString(sum[:])
}
