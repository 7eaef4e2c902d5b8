package web

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

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
