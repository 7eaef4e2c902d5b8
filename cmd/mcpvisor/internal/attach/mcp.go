package attach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/socket"
)

// ErrStopping says that the running `mcpvisor run` is about to end, or has just ended.
var ErrStopping = errors.New("mcpvisor run is ending")

// DialMCP opens an MCP session with all servers of the running `mcpvisor run` of a
// configuration file: messages of MCP, one a line. It returns [ErrNotRunning] if that does not
// run, and [ErrStopping]. The session does not end with ctx. profile is the part of the servers that is
// offered; empty: everything.
func DialMCP(ctx context.Context, config, profile string) (*MCPSession, error) {
	path, err := socket.Find(config)
	if err != nil {
		return nil, err
	}
	conn, err := socket.Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	session, err := upgrade(conn, profile)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return session, nil
}

// upgrade switches a connection to MCP.
func upgrade(conn net.Conn, profile string) (*MCPSession, error) {
	if err := conn.SetDeadline(time.Now().Add(infoTimeout)); err != nil {
		return nil, err
	}
	target := "/run/mcp"
	if profile != "" {
		target += "?" + url.Values{control.ProfileParameter: {profile}}.Encode()
	}
	if _, err := io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: mcpvisor\r\nConnection: Upgrade\r\nUpgrade: "+control.UpgradeMCP+"\r\n\r\n"); err != nil {
		return nil, ErrStopping
	}
	buffered := bufio.NewReader(conn)
	response, err := http.ReadResponse(buffered, nil)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("mcpvisor run has not answered within %v; end it if it hangs", infoTimeout)
	case err != nil: // it ended before it answered
		return nil, ErrStopping
	}
	_ = response.Body.Close()
	switch response.StatusCode {
	case http.StatusSwitchingProtocols:
	case http.StatusNotFound:
		return nil, fmt.Errorf("the configuration has no profile %q; add it to \"profiles\" of \"gateway\", or name another one", profile)
	case http.StatusServiceUnavailable:
		return nil, ErrStopping
	default:
		return nil, fmt.Errorf("mcpvisor run answers %s to a request for an MCP session; it is of another version, so restart it", response.Status)
	}
	return &MCPSession{Conn: conn, UntilUnused: response.Header.Get(control.UntilUnusedHeader) != "", buffered: buffered}, conn.SetDeadline(time.Time{})
}

type MCPSession struct {
	net.Conn
	// UntilUnused: the run was started with --until-unused.
	UntilUnused bool

	buffered *bufio.Reader // may have the first bytes
}

func (s *MCPSession) Read(p []byte) (int, error) { return s.buffered.Read(p) }
