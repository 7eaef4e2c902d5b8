package web

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpvisor/mcpvisor/internal/loopback"
	"github.com/mcpvisor/mcpvisor/web/api"
)

// policy is the Content-Security-Policy of every answer: files of this origin only, no
// inline code or style, no frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// setSecurityHeaders sets the headers of every answer. Answers are not stored, unless they
// say otherwise.
func setSecurityHeaders(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// refusal is the answer to a request that is not served.
type refusal struct {
	status int
	api.ErrorDetail
}

func refuse(status int, message string) *refusal {
	return &refusal{status, api.ErrorDetail{Message: message}}
}

func (r *refusal) write(w http.ResponseWriter) {
	if r.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mcpvisor"`)
	}
	writeError(w, r.status, r.ErrorDetail)
}

// refuse decides whether a request may be served; nil means yes. The order matters: a
// foreign page learns only that it is foreign.
func (h *Handler) refuse(r *http.Request) *refusal {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if read && isProbe(r.URL.Path) { // a kubelet has no token, and uses the address of the pod
		return nil
	}
	if refused := h.refuseStranger(r); refused != nil {
		return refused
	}
	if read {
		return nil
	}
	if err := h.origins.Check(r); err != nil {
		return refuse(http.StatusForbidden, "the request comes from another web site; send it from the page itself")
	}
	if !h.opts.controls {
		return refuse(http.StatusForbidden, "this page is read only; the program that serves it can allow actions with web.WithControls")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "the Content-Type of a POST must be application/json")
	}
	return nil
}

// refuseStranger checks Host, address and token.
func (h *Handler) refuseStranger(r *http.Request) *refusal {
	if !h.acceptsHost(r.Host) {
		return refuse(http.StatusMisdirectedRequest, "the name in the Host header is not one of this page; the program that serves it can allow names with web.WithHosts")
	}
	if !h.opts.tokenSet && !h.opts.ownAuth {
		if !loopback.IsLocal(r.Context()) {
			return refuse(http.StatusForbidden, "without a token this page is served on loopback addresses only; the program that serves it can set one with web.WithToken")
		}
		if loopback.IsForwarded(r) {
			return refuse(http.StatusForbidden, "without a token this page is not served through a proxy; the program that serves it can set one with web.WithToken, or use web.WithOwnAuthentication if the proxy authenticates")
		}
	}
	if !h.hasToken(r) && !h.bringsToken(r) && !isLook(r) {
		return refuse(http.StatusUnauthorized, "a token is required: send it as \"Authorization: Bearer TOKEN\", or open the page and enter it")
	}
	return nil
}

// isProbe reports whether a path is served without token and under any host name.
func isProbe(path string) bool { return path == "/healthz" || path == "/readyz" }

// acceptsHost reports whether the page may be reached under the name in a Host header.
func (h *Handler) acceptsHost(host string) bool {
	name := loopback.HostName(host)
	return loopback.IsName(host) || slices.Contains(h.opts.hosts, name) || slices.Contains(h.opts.hosts, anyHost)
}

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
	h.setCookie(w, r, requested)
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

// setCookie sets the cookie that stands for the token, for the path of the page.
func (h *Handler) setCookie(w http.ResponseWriter, r *http.Request, path string) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, ";") {
		path = "/"
	}
	http.SetCookie(w, &http.Cookie{Name: h.cookieName(), Value: h.cookieValue(), Path: path,
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode})
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

// Attempts to log in by the form are bounded for all readers together: a token that is as long as
// it should be is not found by so few. The other ways to bring the token are not bounded by it.
const (
	loginEvery = 2 * time.Second
	loginBurst = 10
	// maxLoginBytes bounds the body of the form.
	maxLoginBytes = 8 << 10
)

const loginPath = "/login"

func newLoginLimit() *rate.Limiter { return rate.NewLimiter(rate.Every(loginEvery), loginBurst) }

// offersLogin reports whether a refused request is one of a browser for the page.
func offersLogin(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// isLook reports whether a request is for a file that the form needs and that tells nothing.
func isLook(r *http.Request) bool { return r.URL.Path == "/style.css" || r.URL.Path == "/icon.svg" }

// writeLogin answers with the form. problem is empty, or says why the attempt before failed; it is
// text of this package.
func writeLogin(w http.ResponseWriter, status int, problem string) {
	if problem != "" {
		problem = `<p class="bad" role="alert">` + problem + `</p>`
	}
	w.Header().Set("Content-Type", contentTypes[".html"])
	w.WriteHeader(status)
	_, _ = w.Write(bytes.Replace(assets()["login.html"].plain, []byte("<!--problem-->"), []byte(problem), 1)) // a reader that has gone needs no answer
}

// login takes the token of the form and sets the cookie that stands for it.
func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	if !h.acceptsHost(r.Host) || h.origins.Check(r) != nil {
		writeLogin(w, http.StatusForbidden, "The form was sent by another web site. Open the page itself.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes)
	token := r.PostFormValue(tokenParameter)
	if now := h.logins.Reserve(); now.Delay() > 0 {
		wait := now.Delay()
		now.Cancel()
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		writeLogin(w, http.StatusTooManyRequests, "There were too many attempts. Wait a few seconds, then try again.")
		return
	}
	if !sameSecret(token, h.opts.token) {
		writeLogin(w, http.StatusUnauthorized, "This is not the token.")
		return
	}
	requested, _, _ := strings.Cut(r.RequestURI, "?")
	h.setCookie(w, r, strings.TrimSuffix(requested, strings.TrimPrefix(loginPath, "/")))
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}
