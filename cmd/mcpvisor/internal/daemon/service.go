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
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/control"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/servers"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// service tells the service manager about `mcpvisor run`: systemd, or another one that has the protocol of
// sd_notify(3). Without a manager it does nothing. Its methods are called in turn, except for update, which
// any goroutine may call.
type service struct {
	conn *net.UnixConn // nil without a manager
	// interval is how often the manager wants to hear that the process is alive; 0 if it does not.
	interval time.Duration
	client   *facade.Client
	stop     context.CancelFunc
	alive    sync.WaitGroup // the goroutine that says that the process is alive
}

// newService connects to the manager that the environment names. It warns if that cannot be
// reached, because the servers run anyway.
func newService(inv *servers.Opener, c *facade.Client) *service {
	s := &service{client: c, stop: func() {}}
	if err := s.connect(); err != nil {
		inv.Warn("", "%v", err)
	}
	return s
}

// ready says that the servers are supervised, and from then on that the process is alive.
// Whether a server is ready is another question, which /readyz answers.
func (s *service) ready() {
	if s.conn == nil {
		return
	}
	_ = s.send(notifyReady, s.status())
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.alive.Go(func() { s.keepAlive(ctx, s.check) })
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
	if s.conn != nil {
		_ = s.send(s.status())
	}
}

func (s *service) status() string {
	all, ready, idle := s.client.Status(), 0, 0
	for _, server := range all {
		switch {
		case server.State == supervisor.StateReady:
			ready++
		case control.IsAtRest(server.State), server.State == supervisor.StateStopped:
			idle++
		}
	}
	text := fmt.Sprintf("%d of %d servers ready", ready, len(all))
	if idle > 0 {
		text += fmt.Sprintf(", %d at rest or stopped", idle)
	}
	return notifyStatus(text)
}

func (s *service) stopping() {
	_ = s.send(notifyStopping)
	s.stop()
	s.alive.Wait()
}

// These are states of sd_notify(3).
const (
	notifyReady    = "READY=1"
	notifyStopping = "STOPPING=1"
	watchdog       = "WATCHDOG=1"
)

// notifyStatus is the state that `systemctl status` shows as text.
func notifyStatus(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// connect connects to the manager that the environment names, if it names one. It removes the variables, so
// that no child of the process speaks for it.
func (s *service) connect() error {
	address, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	if address == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"}) // Go knows "@" for abstract names
	if err != nil {
		return fmt.Errorf("the service manager cannot be reached: %w", err)
	}
	s.conn = conn
	if n, err := strconv.ParseInt(usec, 10, 64); err == nil && n > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		s.interval = time.Duration(n) * time.Microsecond
	}
	return nil
}

// sendTimeout bounds one message, because the queue of the manager may be full.
const sendTimeout = time.Second

// send sends states in one message. A manager that does not take it in a second does not
// get it.
func (s *service) send(states ...string) error {
	if s.conn == nil {
		return nil
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	if _, err := s.conn.Write([]byte(strings.Join(states, "\n"))); err != nil {
		return fmt.Errorf("telling the service manager: %w", err)
	}
	return nil
}

// keepAlive says twice in each interval of the manager that the process is alive, as long
// as alive does not fail, until the context ends. Without a manager that wants to hear it,
// it returns at once. alive gets half an interval to answer.
func (s *service) keepAlive(ctx context.Context, alive func(context.Context) error) {
	if s.interval <= 0 {
		return
	}
	tick := time.NewTicker(s.interval / 2)
	defer tick.Stop()
	for {
		check, cancel := context.WithTimeout(ctx, s.interval/2)
		if alive(check) == nil {
			_ = s.send(watchdog) // the manager notices what it does not get
		}
		cancel()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *service) close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}
