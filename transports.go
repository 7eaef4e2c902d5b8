package mcpvisor

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stdio describes a server that is a subprocess and speaks newline-delimited JSON-RPC
// on its stdin and stdout.
//
// The process does not inherit the host's whole environment; InheritEnv lists what it gets. It
// runs in a process group of its own. The variable MCPVISOR_EPOCH is the number of its incarnation
// within the registration (ServerStatus.Epoch): each restart increments it, so a server can give
// it to what it writes to, which can then refuse an earlier process. When the server ends, so does the group, and on Linux and
// Windows also what has left the group.
type Stdio struct {
	// Command is the program: a name without a slash is looked up in the PATH of the host,
	// and a relative path such as "./server" begins at Dir. Required.
	Command string
	// Args are the program's arguments, without its name.
	Args []string
	// Env is added to the process's environment. It overrides what is inherited, and MCPVISOR_EPOCH.
	Env map[string]string
	// InheritEnv passes the host's whole environment. By default the server gets only these
	// variables of the host: HOME, USER, LOGNAME, SHELL, PATH, TERM, TZ, LANG, LANGUAGE, LC_*, TMPDIR,
	// TMP, TEMP, XDG_*, DISPLAY, WAYLAND_DISPLAY, XAUTHORITY, KUBECONFIG, the proxies
	// (HTTP_PROXY, HTTPS_PROXY, FTP_PROXY, ALL_PROXY, NO_PROXY, in either case), and
	// SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE and
	// CURL_CA_BUNDLE; on Windows also what the system sets. Name others in Env.
	InheritEnv bool
	// Dir is the working directory. Default: that of the host.
	Dir string
	// KeepDaemons leaves processes running that the server started and that have left its process
	// group. By default they are ended with the server: on Linux they are recognised by a
	// variable in their environment and a number in their resource limits. On Windows a job
	// object always ends them, and on macOS they cannot be found, so there it has no effect. Set
	// it for a server that starts daemons which are meant to stay.
	KeepDaemons bool
}

func (c *Stdio) clone() *Stdio {
	if c == nil {
		return nil
	}
	d := *c
	d.Args, d.Env = slices.Clone(c.Args), maps.Clone(c.Env)
	return &d
}

func (c *Stdio) validate() (errs []error) {
	if strings.TrimSpace(c.Command) == "" {
		errs = append(errs, errors.New("stdio transport: Stdio.Command is empty; name the program to run"))
	}
	for _, text := range append([]string{c.Command, c.Dir}, c.Args...) {
		if strings.ContainsRune(text, 0) {
			errs = append(errs, errors.New("stdio transport: command, argument or directory holds a NUL byte; remove it"))
			break
		}
	}
	for name, value := range c.Env {
		if strings.ContainsRune(value, 0) {
			errs = append(errs, fmt.Errorf("stdio transport: the value of environment variable %q holds a NUL byte; remove it", name))
		}
		if name == "" || strings.ContainsAny(name, "=\x00") {
			errs = append(errs, fmt.Errorf("stdio transport: environment variable name %q is not usable; it must not be empty or hold '='", name))
		}
	}
	return errs
}

// HTTP describes a remote server that speaks Streamable HTTP, or HTTP+SSE, the
// transport that preceded it.
type HTTP struct {
	// URL is the MCP endpoint, http or https. Required.
	URL string
	// Headers are sent with every request to the endpoint's origin, and to no other
	// origin. They are treated as secrets: no log, error or status shows them. An
	// Authorization header together with Auth is an error. The headers
	// Accept, Content-Type, Content-Length, Last-Event-Id and Mcp-* are ignored, because
	// the protocol sets them.
	Headers map[string]string
	// HeaderFunc, if set, returns further headers for each request to the endpoint's origin: a
	// token of the user that a call is made for, for instance. ctx is the context of the request;
	// for a call it has the values of the caller's context. An error fails the request before
	// anything is sent, with ErrInvalid. A header replaces that of the same name in Headers, and
	// the names that Headers ignores are ignored here, too. If a server repeats one of these
	// headers in an error, it is not masked. HeaderFunc must honour ctx, because
	// the call waits for it even beyond its deadline, and be safe for concurrent use. An HTTP with a HeaderFunc must not be changed after Register, and equals
	// only itself in [ServerSpec.Equal].
	HeaderFunc func(ctx context.Context) (map[string]string, error)
	// Socket, if set, is the path of a Unix socket at which the server listens. URL then names the
	// host and the path of requests alone, as in http://localhost/mcp; no proxy is used.
	Socket string
	// TLS, if set, says which servers to trust at an https URL, and has the certificate of this client. It is added to the settings of
	// Client.
	TLS *TLS
	// Client, if set, supplies connections and cookies. Only its Transport and Jar are used:
	// Timeout would cut event streams, and redirects are followed within the origin only. An
	// *http.Transport is cloned, with its TLS and proxy settings. Requests to an authorization
	// server use the Transport and no Jar. The connections of an *http.Transport to it are checked
	// against private networks; of another RoundTripper only the addresses in URLs are. Such a
	// RoundTripper excludes Socket and TLS.
	// Default: a clone of http.DefaultTransport.
	//
	// The Transport must honour the context of a request, as must its dial functions, its Proxy
	// and its TLS callbacks: a call, and the end of the server, wait for them. Close of a body
	// must end its Read. The Jar must not wait.
	Client *http.Client
	// Auth, if set, supplies the credentials of the requests and replaces those that the server
	// refuses: for OAuth &oauth.Config{}, of package oauth, whose zero value is enough for most
	// servers. Default: only Headers and HeaderFunc.
	Auth Auth
	// SSE says that the server speaks HTTP+SSE (2024-11-05) and that URL is the address
	// of its event stream. Without it Streamable HTTP is tried first, and HTTP+SSE when
	// the server refuses initialize with status 400, 404 or 405. What works is
	// remembered for the next incarnation, so SSE only saves the first attempt.
	SSE bool
	// MessagesURL, if set, replaces the address that a server over HTTP+SSE names for messages,
	// except for its query: a server behind a proxy that strips a prefix of the path does not know
	// its outer address. It is relative to URL, and must have its origin.
	MessagesURL string
}

func (c *HTTP) clone() *HTTP {
	if c == nil || c.HeaderFunc != nil { // functions cannot be compared, so the pointer is kept
		return c
	}
	d := *c
	d.Headers = maps.Clone(c.Headers)
	if c.TLS != nil {
		own := *c.TLS
		own.Pins = slices.Clone(c.TLS.Pins)
		d.TLS = &own
	}
	return &d
}

func (c *HTTP) validate() (errs []error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		errs = append(errs, errors.New("http transport: URL cannot be parsed; write it as https://host/path"))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		errs = append(errs, errors.New("http transport: URL must begin with http:// or https:// and name a host"))
	}
	if c.MessagesURL != "" && err == nil {
		if m, err := u.Parse(c.MessagesURL); err != nil || m.Scheme != u.Scheme || !strings.EqualFold(m.Host, u.Host) {
			errs = append(errs, errors.New("http transport: MessagesURL must be a URL with the scheme and the host of URL, or a path"))
		}
	}
	for name, value := range c.Headers {
		if name == "" || strings.ContainsFunc(name, isNotTokenRune) || strings.ContainsFunc(value, isControlRune) {
			errs = append(errs, fmt.Errorf("http transport: header %q is not usable; names hold letters, digits and '-', no spaces or colons, values no line breaks or other control characters", name))
		}
	}
	errs = append(errs, c.validateConnection(u)...)
	return append(errs, c.validateAuth()...)
}

// maxSocketPath is the longest path of a socket in bytes, on any system.
const maxSocketPath = 107

// validateConnection checks Socket and TLS. u is the URL; nil: it cannot be parsed.
func (c *HTTP) validateConnection(u *url.URL) (errs []error) {
	if strings.ContainsRune(c.Socket, 0) || len(c.Socket) > maxSocketPath {
		errs = append(errs, fmt.Errorf("http transport: HTTP.Socket is longer than %d bytes, or holds a NUL byte; systems allow no such path", maxSocketPath))
	}
	if c.Client != nil && c.Client.Transport != nil && (c.Socket != "" || c.TLS != nil) {
		if _, ok := c.Client.Transport.(*http.Transport); !ok {
			errs = append(errs, errors.New("http transport: HTTP.Socket and HTTP.TLS need a HTTP.Client whose Transport is an *http.Transport"))
		}
	}
	t := c.TLS
	if t == nil {
		return errs
	}
	if u != nil && u.Scheme == "http" {
		errs = append(errs, errors.New("http transport: HTTP.TLS has no effect on a URL that begins with http://; write https://, or remove it"))
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		errs = append(errs, errors.New("http transport: HTTP.TLS.CertFile and HTTP.TLS.KeyFile belong together; set both or neither"))
	}
	for _, pin := range t.Pins {
		if digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(pin, "sha256/")); err != nil || len(digest) != sha256.Size {
			errs = append(errs, fmt.Errorf("http transport: in HTTP.TLS.Pins: %q is no SHA-256 digest in base64; write sha256/ and 44 characters", pin))
		}
	}
	return errs
}

// TLS says how a connection to a server over HTTP is secured. Its files are read for each new
// connection, so they may be replaced while the server is in use. A file that cannot be used fails
// the request, and nothing is sent. The certificate of this client and the pins are for the server
// alone, and not for its authorization server; CAFile is trusted there, too, beside the system's
// authorities.
type TLS struct {
	// CAFile is the path of a file with the certificates in PEM that are trusted instead of those of
	// the system: of an authority, or the server's own. Default: those of the system.
	CAFile string
	// CertFile and KeyFile are the paths of the certificate of this client and of its key, both in
	// PEM. Default: none.
	CertFile, KeyFile string
	// Pins are SHA-256 digests of public keys (SubjectPublicKeyInfo) in base64, with or without
	// "sha256/" before them. The server must have one of these keys, in addition to a certificate
	// that is trusted. Default: each key will do.
	Pins []string
	// ServerName is the name in the server's certificate. Default: the host of URL.
	ServerName string
}

// validateAuth checks Auth, and that nothing else sets credentials.
func (c *HTTP) validateAuth() (errs []error) {
	if c.Auth == nil {
		return nil
	}
	if err := c.Auth.Validate(); err != nil {
		errs = append(errs, err)
	}
	if u, err := url.Parse(c.URL); err == nil && u.User != nil {
		errs = append(errs, errors.New("auth: there is a user in the URL as well; remove one of the two credentials"))
	}
	for name := range c.Headers {
		if strings.EqualFold(name, "Authorization") {
			errs = append(errs, errors.New("auth: an Authorization header is set as well; remove one of the two credentials"))
		}
	}
	return errs
}

// isNotTokenRune reports whether a header name must not hold r (RFC 9110, 5.6.2).
func isNotTokenRune(r rune) bool {
	alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// isControlRune reports whether a header value must not hold r (RFC 9110, 5.5).
func isControlRune(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// InMemory describes a server that runs as a goroutine of this process.
// facade.ServeInMemory makes one of a go-sdk server. An InMemory that was registered must
// not be changed.
type InMemory struct {
	// Serve runs one incarnation of the server: it reads newline-delimited JSON-RPC from stdin
	// and writes it to stdout, until stdin ends or ctx is done. The error that it returns is the
	// cause of the end, as the exit status of a process would be. Its stderr is treated like that
	// of a process. Each incarnation calls Serve again, in a goroutine of its own; a panic ends
	// the incarnation. Required.
	Serve func(ctx context.Context, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error
}

func (c *InMemory) validate() (errs []error) {
	if c.Serve == nil {
		errs = append(errs, errors.New("in-memory transport: Serve is nil; set the function that runs the server"))
	}
	return errs
}

// Transport describes a server that is reached over a transport of the go-sdk, such as a
// WebSocket, the exec stream of a container, or a channel of SSH.
//
//	mcpvisor.ServerSpec{
//		Name: "remote",
//		Transport: &mcpvisor.Transport{
//			New:    func(context.Context) (mcp.Transport, error) { return webSocket{url}, nil },
//			Target: "wss://example.org/mcp",
//		},
//		Policy: mcpvisor.Retry(5, time.Second),
//	}
//
// Each start calls New, Connect of the transport, and then the methods of its Connection:
//
//   - Read in one goroutine. Its error is the cause of the end: the calls in flight fail
//     with ErrCrashed, and the policy decides what follows. io.EOF means that the server
//     closed the connection.
//   - Write in another goroutine, one message at a time. Its error ends the session, too,
//     except a *jsonrpc.Error with the code -32005 (rejected by the transport), which fails
//     that one request. A Write that blocks delays the requests to this server only: they
//     end by their timeouts, and an unanswered probe ends the session.
//   - Close once, when the session has ended.
//
// The context of all of them ends with the session. A method that ignores it and Close is
// left behind, and Unregister says so with ErrLeftBehind. A panic of any of them ends the
// session.
//
// All limits and timeouts apply. A message that Read returns is in memory already, so
// Limits.MaxMessageBytes only decides whether it is used.
//
// A Transport that was registered must not be changed. Do not use it for mcp.CommandTransport and
// the HTTP transports of the go-sdk: with Stdio and HTTP a session survives more faults, and the
// cause of its end says more.
type Transport struct {
	// New returns the transport of one start. It may return the same one again if that can
	// connect more than once. If the error of New or Connect is a *supervisor.Cause, it is
	// the cause of the failed start, for example with Permanent, so that no retry is made.
	// Required.
	New func(ctx context.Context) (mcp.Transport, error)
	// Kind names the transport in one word, for status, logs and metrics, as in "ws". Default
	// "custom".
	Kind string
	// Target describes in one line, without secrets, what is reached, for status and logs.
	// Default "(custom transport)".
	Target string
}

func (c *Transport) target() string {
	if c.Target == "" {
		return "(custom transport)"
	}
	return c.Target
}

func (c *Transport) kind() string {
	if c.Kind == "" {
		return "custom"
	}
	return c.Kind
}

func (c *Transport) validate() (errs []error) {
	if c.New == nil {
		errs = append(errs, errors.New("custom transport: Transport.New is nil; set the function that makes the transport"))
	}
	return errs
}
