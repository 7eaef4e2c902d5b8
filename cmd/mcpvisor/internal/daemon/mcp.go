package daemon

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/oidcauth"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// mcpPath is the path of the MCP server.
const mcpPath = "/mcp"

// endpoint is where all servers are offered as one MCP server over Streamable HTTP.
type endpoint struct {
	net.Listener // nil if it shares that of the page
	options      []gateway.Option
	metadata     http.Handler // names the issuer of tokens (RFC 9728); nil without OpenID Connect

	tokens     *gateway.TokenSet // those of tokensFile; nil without one
	tokensFile string
}

// listenMCP listens at the address of --mcp, unless the page has the same. It returns nil without
// one. An address that other machines can reach is refused without tokens, before it is
// listened at.
func (cmd *Serving) listenMCP(sources cli.Sources) (*endpoint, error) {
	if cmd.MCP == "" {
		if cmd.MCPTokens != "" || cmd.hasOIDC() || cmd.MCPURL != "" || len(cmd.MCPOrigins)+len(cmd.MCPHosts) > 0 {
			return nil, cli.UsageError("--mcp-tokens, --mcp-origin, --mcp-host, --mcp-url and --mcp-oidc-… are about the MCP server; set its address with --mcp")
		}
		return nil, nil //nolint:nilnil // none was asked for
	}
	address, err := net.ResolveTCPAddr("tcp", cmd.MCP)
	if err != nil {
		return nil, cli.UsageError("--mcp %q is not an address: %v; write for instance 127.0.0.1:7788", cmd.MCP, err)
	}
	for _, origin := range cmd.MCPOrigins {
		if _, err := settings.ParseOrigin(origin); err != nil {
			return nil, cli.UsageError("--mcp-origin: %v", err)
		}
	}
	for _, host := range cmd.MCPHosts {
		if _, err := settings.ParseHost(host); err != nil {
			return nil, cli.UsageError("--mcp-host: %v", err)
		}
	}
	e := &endpoint{options: []gateway.Option{gateway.WithOrigins(cmd.MCPOrigins...), gateway.WithHosts(cmd.MCPHosts...)}}
	if cmd.MCPTokens != "" {
		tokens, err := readTokens(cmd.MCPTokens)
		if err != nil {
			return nil, err
		}
		e.tokens = new(gateway.TokenSet)
		e.tokens.Set(tokens...)
		e.tokensFile = cmd.MCPTokens
		e.options = append(e.options, gateway.WithTokenSet(e.tokens))
	} else if !cmd.hasOIDC() && !address.IP.IsLoopback() {
		return nil, cli.UsageError("--mcp %s can be reached from other machines, so it needs tokens; set --mcp-tokens or --mcp-oidc-issuer, or listen on 127.0.0.1", cmd.MCP)
	}
	path, err := sessionKeyPath()
	if err != nil {
		return nil, err
	}
	key, err := gateway.LoadSessionKey(path)
	if err == nil {
		key, err = keyOf(key, sources)
	}
	if err != nil {
		return nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: fmt.Sprintf("the key of MCP sessions cannot be used: %v", err)}}
	}
	e.options = append(e.options, gateway.WithSessionKey(key))
	if page, err := net.ResolveTCPAddr("tcp", cmd.HTTP); cmd.HTTP != "" && err == nil && page.String() == address.String() {
		return e, nil
	}
	if e.Listener, err = net.ListenTCP("tcp", address); err != nil {
		return nil, &cli.ExitError{Code: cli.ExitFailed, Report: cli.Report{Kind: cli.KindFailed, Message: fmt.Sprintf("the MCP server cannot be served: %v; choose another port", err)}}
	}
	return e, nil
}

// keyOf derives the key of a configuration from that of the user: what one gateway has sealed is not valid at that of
// another configuration. All nodes of a fleet have one, so that sessions continue at any of them.
func keyOf(key []byte, sources cli.Sources) ([]byte, error) {
	id := "fleet"
	if _, isNode := sources.Node(); !isNode {
		var err error
		if id, err = socket.ID(sources.Key); err != nil {
			return nil, err
		}
	}
	return hkdf.Key(sha256.New, key, nil, "mcpvisor sessions of configuration "+id, len(key))
}

// sessionKeyPath is where the key that signs the ids of MCP sessions is kept, for the next run,
// too: the state directory of the service, or else the user's directory for configuration.
func sessionKeyPath() (string, error) {
	dir, err := stateDirectory(os.UserConfigDir)
	if err != nil {
		return "", cli.UsageError("there is no directory for the key of MCP sessions; set HOME, or STATE_DIRECTORY")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(dir, "session.key"), nil
}

// stateDirectory is the state directory of the service, or else one of the user.
func stateDirectory(user func() (string, error)) (string, error) {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // systemd sets it
		return dir, nil
	}
	base, err := user()
	return filepath.Join(base, "mcpvisor"), err
}

// maxTokensFile is the longest file of tokens, in bytes.
const maxTokensFile = 16 << 20

// readTokens reads a file of tokens: a line has a name, the hash that `mcpvisor token` has printed,
// and, if the client has them, its profile and the end of the token. A file of comments only has no token; an empty one is
// an error, because it may be about to be written.
func readTokens(path string) (tokens []gateway.Token, err error) {
	text, err := regularfile.Read(path, maxTokensFile)
	if err != nil {
		return nil, cli.UsageError("--mcp-tokens cannot be read: %v", err)
	}
	switch {
	case len(text) == 0:
		return nil, cli.UsageError("%s is empty; mcpvisor token NAME prints a line for it, and a file with only a comment (# and a newline) revokes all tokens", path)
	case text[len(text)-1] != '\n': // what is cut off a line may be its profile, and without one everything is offered
		return nil, cli.UsageError("the last line of %s does not end in a newline, so some of it may be missing; add the newline", path)
	}
	lines := map[string]int{} // by hash
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		var expires time.Time
		if last, found := strings.CutPrefix(fields[len(fields)-1], expiresField); found {
			if expires, err = time.Parse(time.RFC3339, last); err != nil {
				return nil, cli.UsageError("%s:%d: %q is not a time; write for instance %s2027-01-31T00:00:00Z", path, i+1, last, expiresField)
			}
			fields = fields[:len(fields)-1]
		}
		if len(fields) < 2 || len(fields) > 3 || !isHash(fields[1]) {
			return nil, cli.UsageError("%s:%d is not a name, the hash of a token and perhaps a profile and %sTIME; mcpvisor token NAME prints such a line", path, i+1, expiresField)
		}
		hash := strings.ToLower(fields[1])
		if first := lines[hash]; first > 0 {
			return nil, cli.UsageError("%s:%d has the hash of line %d; a token has one line: remove one of them", path, i+1, first)
		}
		lines[hash] = i + 1
		tokens = append(tokens, gateway.Token{Principal: fields[0], SHA256: hash, Profile: strings.Join(fields[2:], ""), Expires: expires})
	}
	return tokens, nil
}

// isHash reports whether a text has the form of a gateway.HashToken.
func isHash(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == len(gateway.HashToken(""))
}

// expiresField begins the last field of a line of a token that expires; a time of RFC 3339 follows.
const expiresField = "expires="

// followTokens reads the file of the tokens again when it changes, until ctx ends. While it cannot be used, the
// tokens stay as they are. The caller waits for the end of run, which does not return before ctx ends.
func (e *endpoint) followTokens(ctx context.Context, report func(text string)) (run func(), err error) {
	f, err := newFollower([]string{e.tokensFile})
	if err != nil {
		return nil, fmt.Errorf("changes of %s are not noticed (%w); restart to use them", e.tokensFile, err)
	}
	var last []gateway.Token
	var problem string
	read := false
	return func() {
		f.run(ctx, func() []string {
			tokens, err := readTokens(e.tokensFile)
			switch {
			case err != nil && err.Error() != problem:
				problem = err.Error()
				report(problem + "; the tokens stay as they are; to revoke all, leave one line in the file: #")
			case err == nil:
				e.tokens.Set(tokens...)
				if problem != "" || read && !slices.Equal(last, tokens) {
					report(fmt.Sprintf("%s was read again; %d tokens are valid unless they have expired", e.tokensFile, len(tokens)))
				}
				last, problem, read = tokens, "", true
			}
			return []string{e.tokensFile}
		})
	}, nil
}

// url returns the address that hosts on this machine are given.
func (e *endpoint) url(page *page) string {
	l := e.Listener
	if l == nil {
		l = page.Listener
	}
	return strings.TrimSuffix(urlOf(l), "/") + mcpPath
}

// mcpServer serves a client as an MCP server, once its servers have been started.
type mcpServer struct {
	*gateway.Server
	started <-chan struct{} // closed when each server was started once, or is no longer waited for
	stop    context.CancelFunc
	waiting chan struct{} // holds a value for each request that waits for started
}

// maxWaiting is how many requests wait for the starts of the servers. Their tokens are not checked yet.
const maxWaiting = 1000

// handler makes the MCP server of a client with servers of these names, which are registered later.
func (e *endpoint) handler(c *facade.Client, settings *gateway.SettingsVar, hosts *clients.Registry, names []string) *mcpServer {
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	go func() {
		defer close(started)
		control.AwaitStarts(ctx, c, names)
	}()
	server := gateway.Handler(c, append(slices.Clip(e.options), gateway.WithSettings(settings), gateway.WithClients(hosts))...)
	return &mcpServer{Server: server, started: started, stop: cancel, waiting: make(chan struct{}, maxWaiting)}
}

// Close ends the streams and the requests, those that wait included.
func (s *mcpServer) Close() {
	s.Server.Close()
	s.stop()
	<-s.started
}

func (s *mcpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.awaitStarts(w, r) {
		s.Server.ServeHTTP(w, r)
	}
}

// awaitStarts reports whether the servers have been started. If not, the client has its answer: it is refused, a browser
// asks what a page may send, or too many requests wait; or it is gone.
func (s *mcpServer) awaitStarts(w http.ResponseWriter, r *http.Request) bool {
	select {
	case <-s.started:
		return true
	default:
	}
	if !s.Admit(w, r) {
		return false
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the servers are being started, and too many requests wait for them; nothing was done", http.StatusServiceUnavailable)
		return false
	}
	select {
	case <-s.started:
		return true
	case <-r.Context().Done():
		return false
	}
}

// atPath serves one handler at the path of the MCP server, and another one elsewhere; nil: none.
func (e *endpoint) atPath(mcp, other http.Handler) http.Handler {
	mux := http.NewServeMux()
	if e.metadata != nil {
		mux.Handle(oidcauth.MetadataPath, e.metadata)
		mux.Handle(oidcauth.MetadataPath+"/", e.metadata)
	}
	mux.Handle(mcpPath, mcp)
	mux.Handle(mcpPath+"/{$}", mcp)
	mux.Handle(mcpPath+"/{"+gateway.ProfilePath+"}", mcp)
	if other == nil {
		other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the MCP server is at "+mcpPath, http.StatusNotFound)
		})
	}
	mux.Handle("/", other)
	return mux
}

// hasOIDC reports whether tokens of an issuer are asked for.
func (cmd *Serving) hasOIDC() bool {
	return cmd.MCPOIDCIssuer != "" || cmd.MCPOIDCAudience != "" || len(cmd.MCPOIDCScopes) > 0 || cmd.MCPOIDCProfile != ""
}

// useOIDC makes the MCP server accept the tokens of an issuer, and say where clients get one. An
// issuer that cannot be reached is asked again when a token comes.
func (cmd *Serving) useOIDC(inv *servers.Opener, e *endpoint, p *page) error {
	switch {
	case !cmd.hasOIDC() && cmd.MCPURL != "":
		return cli.UsageError("--mcp-url is for clients that get their tokens from an issuer; set --mcp-oidc-issuer, or name the host that clients use with --mcp-host")
	case !cmd.hasOIDC():
		return nil
	}
	public, err := cmd.publicURL(e, p)
	if err != nil {
		return err
	}
	if cmd.MCPTokens != "" {
		return cli.UsageError("--mcp-tokens and --mcp-oidc-issuer are two ways to know a client; keep one")
	}
	verifier, err := oidcauth.New(oidcauth.Options{Issuer: cmd.MCPOIDCIssuer, Audience: cmd.MCPOIDCAudience, ProfileClaim: cmd.MCPOIDCProfile,
		Log: func(text string) { inv.Warn("", "%s", text) }})
	if err != nil {
		return cli.UsageError("--mcp-oidc-issuer, --mcp-oidc-audience: %v", err)
	}
	_ = verifier.Prepare(inv.Context) // it was warned of
	resource := oidcauth.Resource{URL: public, Issuer: cmd.MCPOIDCIssuer, Scopes: cmd.MCPOIDCScopes}
	e.metadata = resource
	e.options = append(e.options, gateway.WithHosts(public.Hostname()),
		gateway.WithTokenVerifier(verifier.Verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: resource.MetadataURL(), Scopes: cmd.MCPOIDCScopes}))
	return nil
}

// publicURL is the address at which clients reach the MCP server.
func (cmd *Serving) publicURL(e *endpoint, p *page) (*url.URL, error) {
	text := cmd.MCPURL
	if audience, err := url.Parse(cmd.MCPOIDCAudience); text == "" && err == nil && isAddress(audience) {
		text = cmd.MCPOIDCAudience
	}
	if text == "" {
		text = e.url(p)
	}
	public, err := url.Parse(text)
	if err != nil || !isAddress(public) {
		return nil, cli.UsageError("--mcp-url %q is not the address of the MCP server; write for instance https://mcp.example.com/mcp", text)
	}
	return public, nil
}

func isAddress(u *url.URL) bool {
	return (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
}
