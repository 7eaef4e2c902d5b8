package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
