package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// service tells a service manager about `mcpvisor run`. Without a manager it does nothing.
// Its methods are called in turn, except for update, which any goroutine may call.
type service struct {
	manager *serviceManager
	client  *facade.Client
	stop    context.CancelFunc
	alive   sync.WaitGroup // the goroutine that says that the process is alive
}

// newService connects to the manager that the environment names. It warns if that cannot be
// reached, because the servers run anyway.
func newService(inv *servers.Opener, c *facade.Client) *service {
	manager, err := managerFromEnvironment()
	if err != nil {
		inv.Warn("", "%v", err)
	}
	return &service{manager: manager, client: c, stop: func() {}}
}

// ready says that the servers are supervised, and from then on that the process is alive.
// Whether a server is ready is another question, which /readyz answers.
func (s *service) ready() {
	if s.manager == nil {
		return
	}
	_ = s.manager.Send(notifyReady, s.status())
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.alive.Go(func() { s.manager.KeepAlive(ctx, s.check) })
}

// check asks the manager of the servers, so that it fails if that no longer answers.
// No server has an empty name.
func (s *service) check(ctx context.Context) error {
	if err := s.client.Unregister(ctx, ""); err != nil && !errors.Is(err, mcpvisor.ErrUnknownServer) {
		return err
	}
	return nil
}

func (s *service) update() {
	if s.manager != nil {
		_ = s.manager.Send(s.status())
	}
}

func (s *service) status() string {
	all, ready := s.client.Status(), 0
	for _, server := range all {
		if server.State == supervisor.StateReady {
			ready++
		}
	}
	return notifyStatus(fmt.Sprintf("%d of %d servers ready", ready, len(all)))
}

func (s *service) stopping() {
	_ = s.manager.Send(notifyStopping)
	s.stop()
	s.alive.Wait()
}

func (s *service) close() { _ = s.manager.Close() }

// These are states of sd_notify(3).
const (
	notifyReady    = "READY=1"
	notifyStopping = "STOPPING=1"
	watchdog       = "WATCHDOG=1"
)

// notifyStatus is the state that `systemctl status` shows as text.
func notifyStatus(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// serviceManager is that of this process, systemd or another one that has the protocol of
// sd_notify(3). A nil serviceManager hears nothing, so a caller
// need not know whether there is one. Safe for concurrent use.
type serviceManager struct {
	conn *net.UnixConn
	// interval is how often the manager wants to hear that the process is alive; 0 if it
	// does not.
	interval time.Duration
}

// managerFromEnvironment returns the manager that the environment names; nil if it names none. It
// removes the variables, so that no child of the process speaks for it.
func managerFromEnvironment() (*serviceManager, error) {
	address, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	if address == "" {
		return nil, nil //nolint:nilnil // a nil serviceManager does nothing
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"}) // Go knows "@" for abstract names
	if err != nil {
		return nil, fmt.Errorf("the service manager cannot be reached: %w", err)
	}
	m := &serviceManager{conn: conn}
	if n, err := strconv.ParseInt(usec, 10, 64); err == nil && n > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.interval = time.Duration(n) * time.Microsecond
	}
	return m, nil
}

// sendTimeout bounds one message, because the queue of the manager may be full.
const sendTimeout = time.Second

// Send sends states in one message. A manager that does not take it in a second does not
// get it.
func (m *serviceManager) Send(states ...string) error {
	if m == nil {
		return nil
	}
	if err := m.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	if _, err := m.conn.Write([]byte(strings.Join(states, "\n"))); err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	return nil
}

// KeepAlive says twice in each interval of the manager that the process is alive, as long
// as alive does not fail, until the context ends. Without a manager that wants to hear it,
// it returns at once. alive gets half an interval to answer.
func (m *serviceManager) KeepAlive(ctx context.Context, alive func(context.Context) error) {
	if m == nil || m.interval <= 0 {
		return
	}
	tick := time.NewTicker(m.interval / 2)
	defer tick.Stop()
	for {
		check, cancel := context.WithTimeout(ctx, m.interval/2)
		if alive(check) == nil {
			_ = m.Send(watchdog) // the manager notices what it does not get
		}
		cancel()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Close closes the connection.
func (m *serviceManager) Close() error {
	if m == nil {
		return nil
	}
	return m.conn.Close()
}
