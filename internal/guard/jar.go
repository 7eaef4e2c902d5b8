package guard

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
)

// Jar is a cookie jar of the host's. The zero Jar holds no cookies.
type Jar struct{ jar http.CookieJar }

// NewJar guards a jar, which may be nil.
func NewJar(jar http.CookieJar) Jar { return Jar{jar} }

// IsNil reports whether there is a jar.
func (j Jar) IsNil() bool { return j.jar == nil }

// Cookies are the cookies for a request to u.
func (j Jar) Cookies(ctx context.Context, u *url.URL) ([]*http.Cookie, error) {
	if j.isStandard() {
		return Value("cookie jar", func() ([]*http.Cookie, error) { return j.jar.Cookies(u), nil })
	}
	return Wait(ctx, "cookie jar", nil, func(context.Context) ([]*http.Cookie, error) { return j.jar.Cookies(u), nil })
}

// SetCookies keeps the cookies of a response.
func (j Jar) SetCookies(ctx context.Context, u *url.URL, cookies []*http.Cookie) error {
	if j.isStandard() {
		return Call("cookie jar", func() error { j.jar.SetCookies(u, cookies); return nil })
	}
	return Do(ctx, "cookie jar", func(context.Context) error { j.jar.SetCookies(u, cookies); return nil })
}

// isStandard: the jar of the standard library never waits.
func (j Jar) isStandard() bool {
	_, ok := j.jar.(*cookiejar.Jar)
	return ok
}
