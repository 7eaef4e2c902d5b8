package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// anyRedirect is the default redirect URL; its port is chosen.
const anyRedirect = "http://127.0.0.1/callback"

// redirect is the URL for a consent: the door's, and if nobody listens yet the
// host's, the one that was registered, or one with a port that is free now.
func (a *Authorizer) redirect(known *mcpvisor.Authorization, d *door) (string, error) {
	if d != nil {
		return d.redirect, nil
	}
	wanted, free := a.wanted(known)
	if !free {
		return wanted.String(), nil
	}
	l, err := listen(wanted.Hostname(), "0")
	if err != nil {
		return "", fmt.Errorf("there is no free port for the redirect: %w; set RedirectURL", err)
	}
	return withPort(wanted, l), l.Close()
}

// wanted is the redirect URL to begin with. free means that any port will do.
func (a *Authorizer) wanted(known *mcpvisor.Authorization) (u *url.URL, free bool) {
	text := a.oauth.RedirectURL
	if text == "" {
		text = anyRedirect
	}
	u, _ = url.Parse(text) // the spec is valid
	if !isLoopback(u.Hostname()) || u.Scheme != "http" || u.Port() != "" && u.Port() != "0" {
		return u, false
	}
	if known != nil && known.RedirectURL != "" {
		if v, err := url.Parse(known.RedirectURL); err == nil && v.Hostname() == u.Hostname() && v.Path == u.Path && v.Port() != "" {
			return v, false
		}
	}
	return u, true
}

// listen takes no context, because it takes no time.
func listen(host, port string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
}

func withPort(u *url.URL, l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	v := *u
	v.Host = net.JoinHostPort(u.Hostname(), port)
	return v.String()
}

// door listens on a loopback address for the redirect of one consent.
type door struct {
	redirect string
	arrived  chan knock
	server   *http.Server
	path     string
}

// knock is one request at the door; answer takes what becomes of it.
type knock struct {
	url    string
	answer chan error
}

// openDoor opens the door at the wanted URL, or at another port if that one is
// taken and was not asked for.
func (a *Authorizer) openDoor(known *mcpvisor.Authorization) (*door, error) {
	u, free := a.wanted(known)
	if !isLoopback(u.Hostname()) || u.Scheme != "http" {
		return nil, fmt.Errorf("the redirect URL %s is not on this machine; hand what arrives there to FinishAuthorization", bare(u))
	}
	port := u.Port()
	if free {
		port = "0"
	}
	l, err := listen(u.Hostname(), port)
	if _, every := a.wanted(nil); err != nil && every { // the port of last time is taken
		l, err = listen(u.Hostname(), "0")
	}
	if err != nil {
		return nil, fmt.Errorf("nobody can listen for the redirect at %s: %w; free the port, or set another RedirectURL", u.Host, err)
	}
	d := &door{redirect: withPort(u, l), arrived: make(chan knock), path: u.Path}
	d.server = &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = d.server.Serve(l) }()
	return d, nil
}

func (d *door) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if d.server.Shutdown(ctx) != nil {
		_ = d.server.Close()
	}
}

// ServeHTTP implements http.Handler. Whatever is not a redirect of ours is
// turned away: anything on this machine may knock.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Connection", "close")
	if r.Method != http.MethodGet || d.path != "" && r.URL.Path != d.path {
		http.Error(w, "There is nothing here.", http.StatusNotFound)
		return
	}
	k := knock{url: d.redirect + "?" + r.URL.RawQuery, answer: make(chan error, 1)}
	select {
	case d.arrived <- k:
	case <-r.Context().Done():
		return
	}
	select {
	case err := <-k.answer:
		if err != nil {
			http.Error(w, "The authorization failed. The program that asked for it says why.", http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte("Authorized. You may close this window.\n"))
	case <-r.Context().Done():
	}
}

// errNotOurs: somebody knocked who does not know the state.
var errNotOurs = errors.New("not a redirect of ours")

// await waits for the redirect of a consent and hands it to complete, whose
// error it returns. opened brings the error of opening the URL.
func (d *door) await(ctx context.Context, n *consent, opened <-chan error, complete func(redirect string) error) error {
	for {
		select {
		case k := <-d.arrived:
			u, err := url.Parse(k.url)
			if err != nil || u.Query().Get("state") != n.state {
				k.answer <- errNotOurs
				continue
			}
			err = complete(k.url)
			k.answer <- err
			return err
		case err := <-opened:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
