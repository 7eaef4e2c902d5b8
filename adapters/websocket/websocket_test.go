package websocket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	ws "github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// addressVar is set in the process of the server.
const addressVar = "WEBSOCKET_TEST_ADDRESS"

func TestMain(m *testing.M) {
	if address := os.Getenv(addressVar); address != "" {
		panic(http.ListenAndServe(address, serve()))
	}
	goleak.VerifyTestMain(m)
}

// accepted is the transport of a server over a WebSocket that was accepted.
type accepted struct{ ws *ws.Conn }

func (a accepted) Connect(context.Context) (mcp.Connection, error) { return Connection(a.ws, 0), nil }

// serve serves a server of the go-sdk over WebSockets.
func serve() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	type text struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a text) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "hang"}, func(ctx context.Context, request *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		_ = request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: 1})
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := ws.Accept(w, r, &ws.AcceptOptions{Subprotocols: []string{Subprotocol}})
		if err != nil {
			return
		}
		session, err := server.Connect(r.Context(), accepted{conn}, nil)
		if err == nil {
			_ = session.Wait()
		}
	})
}

// start starts the server in a process of its own.
func start(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), addressVar+"="+address)
	require.NoError(t, cmd.Start())
	return cmd
}

// kill ends the process as SIGKILL does.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

// A server behind a WebSocket crashes: the call in flight fails at once, and after the server
// was started again the supervisor reaches it.
func TestTransport_kill_and_restart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())

	client, err := facade.New(facade.WithDefaultWaitReady())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(ctx)) }()
	for _, era := range []mcpvisor.Era{mcpvisor.EraLegacy, mcpvisor.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			name := "remote-" + string(era)
			process := start(t, address)
			require.NoError(t, client.Register(ctx, mcpvisor.ServerSpec{
				Name: name, Era: era, StartSupervised: true, // the process may not listen yet
				Transport: &mcpvisor.Transport{Target: "ws://" + address,
					New: func(context.Context) (mcp.Transport, error) { return Transport{URL: "ws://" + address}, nil }},
				Policy: supervisor.Retry(supervisor.Unlimited, time.Millisecond, supervisor.WithMaxDelay(50*time.Millisecond)),
			}))
			for range 3 {
				result, err := client.CallTool(ctx, name+"/echo", map[string]any{"text": "hello"})
				require.NoError(t, err)
				require.Equal(t, "hello", result.Content[0].(*mcp.TextContent).Text)

				failed, working := make(chan error, 1), make(chan struct{}, 1)
				go func() {
					_, err := client.CallTool(ctx, name+"/hang", nil,
						facade.WithProgress(func(mcpvisor.Progress) { working <- struct{}{} })) // the server has the call
					failed <- err
				}()
				select {
				case <-working:
				case err := <-failed:
					require.NoError(t, err, "the call ended before its server did")
				}
				kill(t, process)
				err = <-failed
				require.ErrorIs(t, err, mcpvisor.ErrCrashed)
				var e *mcpvisor.Error
				require.True(t, errors.As(err, &e))
				require.Equal(t, mcpvisor.OutcomeUnknown, e.Outcome)
				process = start(t, address)
			}
			require.NoError(t, client.WaitReady(ctx, name))
			status, _ := client.ServerStatus(name)
			require.Equal(t, "custom", status.Transport)
			require.Equal(t, "ws://"+address, status.Target)
			require.NoError(t, client.Unregister(ctx, name))
			kill(t, process)
		})
	}
}
