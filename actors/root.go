package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/mcpvisor/mcpvisor/messages"
)

// root is the top of the tree. It spawns servers once, and a new manager whenever the
// current one has crashed.
//
// All fields are owned by the goroutine of the actor.
type root struct {
	rt       *Runtime
	servers  *actor.PID
	manager  *actor.PID
	managers int  // spawned so far; part of their names
	stopping bool // the end of the manager is wanted
}

// Receive implements actor.Actor.
func (r *root) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.servers, _ = c.SpawnNamed(r.rt.props("servers", func() actor.Actor {
			return &servers{rt: r.rt, children: map[string]child{}}
		}), "servers")
		r.spawnManager(c)
	case *actor.Terminated:
		if !r.stopping && r.manager != nil && m.Who.Id == r.manager.Id {
			r.spawnManager(c)
		}
	case *actor.Stopping:
		r.stopping = true
	}
}

func (r *root) spawnManager(c actor.Context) {
	r.managers++
	pid, err := c.SpawnNamed(r.rt.props("manager", func() actor.Actor {
		return &manager{rt: r.rt, servers: r.servers, inbox: &r.rt.inbox, state: &r.rt.managerState}
	}), fmt.Sprintf("%s-manager.%d", c.Self().Id, r.managers))
	if err != nil {
		return
	}
	r.manager = pid
	r.rt.manager.Store(pid)
	// A post between the start of this manager and the line above has woken the last one.
	c.Send(pid, &wake{})
}

// post sends a message to the manager. After the end of the last server no manager
// handles it: a caller that waits for a reply must wait for Runtime.drained, too.
func (rt *Runtime) post(m messages.Message) {
	if isClosed(rt.drained) {
		return
	}
	rt.inbox.push(m)
	if manager := rt.manager.Load(); manager != nil { // the first one looks into the inbox when it starts
		rt.system.Root.Send(manager, &wake{})
	}
}

// send sends a message to an actor. Any goroutine may call it.
func (rt *Runtime) send(to *actor.PID, m messages.Message) { rt.system.Root.Send(to, m) }
