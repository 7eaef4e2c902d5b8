// Package callback receives the redirect of an authorization request on a loopback
// address of this machine (RFC 8252, section 7.3).
package callback

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Listener listens on a loopback address for the redirect of one authorization request (RFC
// 8252, section 7.3). All fields are set by Listen and never change.
type Listener struct {
	redirectURI string
	path        string
	arrived     chan request // unbuffered: from ServeHTTP to Await
	http        *http.Server
}

// request is one HTTP request for the redirect URI. outcome takes the result that
// the browser shows; it has room for it, so the sender never blocks.
type request struct {
	url     string
	outcome chan error
}

// Listen starts a server at the host and the path of u, an http URL of this
// machine. port "0" means any free port. Close stops it.
func Listen(u *url.URL, port string) (*Listener, error) {
	l, err := listenTCP(u.Hostname(), port)
	if err != nil {
		return nil, err
	}
	s := &Listener{redirectURI: withPort(u, l), path: u.Path, arrived: make(chan request)}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// FreePort returns u with a port that is free now. It does not reserve the port.
func FreePort(u *url.URL) (string, error) {
	l, err := listenTCP(u.Hostname(), "0")
	if err != nil {
		return "", err
	}
	return withPort(u, l), l.Close()
}

// listenTCP takes no context, because listening does not block.
func listenTCP(host, port string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
}

// withPort returns u with the port on which l listens.
func withPort(u *url.URL, l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	v := *u
	v.Host = net.JoinHostPort(u.Hostname(), port)
	return v.String()
}

// RedirectURI returns the URL that the authorization request must name.
func (s *Listener) RedirectURI() string { return s.redirectURI }

// Close stops the server. The browser gets a second to read its last answer.
func (s *Listener) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

// ServeHTTP implements http.Handler. Any program on this machine may connect, so it
// refuses all requests but a GET of the redirect URI. [Listener.Await] checks the
// state.
func (s *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the URL holds the authorization code
	h.Set("Connection", "close")
	if r.Method != http.MethodGet || s.path != "" && r.URL.Path != s.path {
		http.Error(w, "Not found.", http.StatusNotFound)
		return
	}
	// Await may serve another request at the moment, or may be over.
	req := request{url: s.redirectURI + "?" + r.URL.RawQuery, outcome: make(chan error, 1)}
	select {
	case s.arrived <- req:
	case <-r.Context().Done():
		return
	}
	// The browser shows whether the code exchange succeeded, without details: the page may
	// be seen by others.
	select {
	case err := <-req.outcome:
		if err != nil {
			http.Error(w, "The authorization failed. The program that started it shows the reason.", http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte("Authorized. You may close this window.\n"))
	case <-r.Context().Done():
	}
}

// errForeignState is the outcome of a request whose state is not the expected one.
var errForeignState = errors.New("the state belongs to another authorization request")

// Await waits for the redirect that carries state (RFC 6749, section 10.12), hands
// its whole URL to complete and returns the error of complete. Requests with
// another state are refused, and the wait continues. opened delivers the error of
// opening the browser; an error ends the wait.
func (s *Listener) Await(ctx context.Context, state string, opened <-chan error, complete func(redirect string) error) error {
	for {
		select {
		case req := <-s.arrived:
			u, err := url.Parse(req.url)
			if err != nil || u.Query().Get("state") != state {
				req.outcome <- errForeignState
				continue
			}
			err = complete(req.url)
			req.outcome <- err
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
