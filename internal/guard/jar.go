package guard

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
)

// Jar guards a cookie jar of the host. The zero Jar has no cookies.
type Jar struct{ jar http.CookieJar }

// NewJar guards a jar. It may be nil.
func NewJar(jar http.CookieJar) Jar { return Jar{jar} }

// IsNil reports whether the host supplied no jar.
func (j Jar) IsNil() bool { return j.jar == nil }

// Cookies returns the cookies for a request to u.
func (j Jar) Cookies(ctx context.Context, u *url.URL) ([]*http.Cookie, error) {
	if j.isStandard() {
		return Value("cookie jar", func() ([]*http.Cookie, error) { return j.jar.Cookies(u), nil })
	}
	return Wait(ctx, "cookie jar", nil, func(context.Context) ([]*http.Cookie, error) { return j.jar.Cookies(u), nil })
}

// SetCookies stores the cookies of a response from u.
func (j Jar) SetCookies(ctx context.Context, u *url.URL, cookies []*http.Cookie) error {
	if j.isStandard() {
		return Call("cookie jar", func() error { j.jar.SetCookies(u, cookies); return nil })
	}
	return Do(ctx, "cookie jar", func(context.Context) error { j.jar.SetCookies(u, cookies); return nil })
}

// isStandard reports whether the jar is that of the standard library, which never
// blocks and needs no goroutine.
func (j Jar) isStandard() bool {
	_, ok := j.jar.(*cookiejar.Jar)
	return ok
}
