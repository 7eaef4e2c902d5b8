package group_test

import (
	"slices"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/group"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// otp is an executable model of the supervisor of Erlang/OTP. Each rule is written from one sentence of the
// documentation of stdlib's supervisor and of the design principles, which stands beside it; no line is from its
// code or from ours. Lines marked "here N" follow difference N of the package's documentation.
type otp struct {
	now   time.Time
	root  *otpSupervisor
	trace []string
	of    map[string]*otpChild
}

type otpSupervisor struct {
	config   group.Config
	parent   *otpSupervisor
	self     *otpChild // in the parent
	children []*otpChild
	restarts []time.Time
	running  bool
	up       bool // here 5: all its children were started, or are not to be
}

type otpChild struct {
	name    string
	restart group.Restart
	in      *otpSupervisor
	sup     *otpSupervisor // of a nested supervisor
	running bool
	deleted bool // the specification, of a temporary child
	stopped bool // by terminate_child
	resting bool // a transient child that has terminated normally
}

func newOTP(tree []group.Config) *otp {
	o := &otp{of: map[string]*otpChild{}}
	byName := map[string]group.Config{}
	for _, c := range tree {
		byName[c.Name] = c
	}
	var build func(c group.Config, parent *otpSupervisor) *otpSupervisor
	build = func(c group.Config, parent *otpSupervisor) *otpSupervisor {
		s := &otpSupervisor{config: c, parent: parent}
		for _, m := range c.Members {
			child := &otpChild{name: m.Name, restart: m.Restart, in: s}
			o.of[m.Name] = child
			if m.Group {
				child.sup = build(byName[m.Name], s)
				child.sup.self = child
			}
			s.children = append(s.children, child)
		}
		return s
	}
	o.root = build(tree[0], nil)
	return o
}

// start starts a supervisor. "The children are started in the order in which they are listed, from left to
// right." "The supervisor is responsible for starting, stopping, and monitoring its child processes": a new one
// knows nothing of the one before.
func (o *otp) start(s *otpSupervisor) {
	s.running, s.up, s.restarts = true, false, nil
	for _, c := range s.children {
		c.deleted, c.running = false, false
	}
	o.resume(s)
}

// dependent reports whether a child comes after those before it (here 5, 6).
func (s *otpSupervisor) dependent() bool {
	return s.config.Strategy == supervisor.RestForOne || s.config.Strategy == supervisor.OneForAll
}

func (c *otpChild) wanting() bool { return !c.running && !c.stopped && !c.resting && !c.deleted }

// resume starts the children that are to run, in order.
func (o *otp) resume(s *otpSupervisor) {
	waits := false
	for i, c := range s.children {
		if c.wanting() && !(s.dependent() && waits) {
			if s.dependent() { // here 6: what it comes after is wanted
				o.wake(s.children[:i])
			}
			o.startChild(c)
		} else if c.running && c.sup != nil {
			o.resume(c.sup)
		}
		// here 5: those behind one that is stopped wait for it
		waits = waits || c.wanting() || c.blocks()
	}
	if !slices.ContainsFunc(s.children, (*otpChild).wanting) {
		s.up = true
	}
}

// blocks: here 5, also for one that comes after a supervisor, and so after its children.
func (c *otpChild) blocks() bool {
	return c.stopped || c.running && c.sup != nil && (!c.sup.up || slices.ContainsFunc(c.sup.children, (*otpChild).blocks))
}

// wake starts children that rest.
func (o *otp) wake(children []*otpChild) {
	for _, c := range children {
		if c.resting {
			c.resting = false
			o.startChild(c)
		} else if c.running && c.sup != nil {
			o.wake(c.sup.children)
		}
	}
}

func (o *otp) startChild(c *otpChild) {
	if c.running = true; c.sup != nil {
		o.start(c.sup)
		return
	}
	o.trace = append(o.trace, "start "+c.name)
}

// terminate ends a child. "When a supervisor terminates, it terminates all its children in reverse start order,
// before it terminates itself". It does so here.
func (o *otp) terminate(c *otpChild) {
	if !c.running {
		return
	}
	if c.running = false; c.sup == nil {
		o.trace = append(o.trace, "end "+c.name)
		return
	}
	o.terminateAll(c.sup.children)
	c.sup.running, c.sup.up = false, false
}

func (o *otp) terminateAll(children []*otpChild) {
	for _, c := range slices.Backward(children) {
		o.terminate(c)
	}
}

// exited handles the end of a child by itself.
func (o *otp) exited(c *otpChild, normal bool) {
	c.running = false
	switch {
	case c.restart == group.Temporary: // "A temporary child process is never restarted"
		c.deleted = true
		return
	case c.restart == group.Transient && normal: // "restarted only if it terminates abnormally"
		c.resting = true
		return
	}
	// "A permanent child process is always restarted."
	s := c.in
	// "If more than MaxR number of restarts occur in the last MaxT seconds, the supervisor terminates all the child
	// processes and then itself."
	s.restarts = append(s.restarts, o.now)
	recent := 0
	for _, t := range s.restarts {
		if o.now.Sub(t) < s.config.Intensity.Window {
			recent++
		}
	}
	if recent > s.config.Intensity.Restarts {
		o.terminateAll(s.children)
		if s.running, s.up = false, false; s.self != nil {
			// "When the supervisor terminates, the next higher-level supervisor takes some action."
			o.exited(s.self, false) // here 8
		}
		return
	}
	again := []*otpChild{c} // one_for_one: "If one child process terminates and is to be restarted, only that child process is affected."
	switch s.config.Strategy {
	case supervisor.OneForAll: // "all other child processes are terminated and then all child processes are restarted"
		again = s.children
	case supervisor.RestForOne: // "the rest of the child processes (that is, the child processes after the terminated one in start order) are terminated. Then the terminated child process and all child processes after it are restarted."
		again = s.children[slices.Index(s.children, c):]
	case supervisor.OneForOne:
	}
	var ran []*otpChild
	for _, x := range again {
		if x.running {
			ran = append(ran, x)
		}
	}
	o.terminateAll(again)
	for _, x := range ran {
		// "... (even when the supervisor's restart strategy is rest_for_one or one_for_all and a sibling's death causes
		// the temporary process to be terminated)"
		if x.restart == group.Temporary {
			if x.deleted = true; x.sup != nil {
				x.sup.forget()
			}
		}
	}
	o.resume(s)
}

// forget: here 9, a group that was given up begins afresh, also with those that rest.
func (s *otpSupervisor) forget() {
	for _, c := range s.children {
		if c.resting = false; c.sup != nil {
			c.sup.forget()
		}
	}
}

// exit is the end of a running child by itself. What waited for it is started.
func (o *otp) exit(c *otpChild, normal bool) {
	if o.exited(c, normal); o.root.running {
		o.resume(o.root)
	}
}

// stop is terminate_child: "the process, if any, is terminated and the child specification is kept".
func (o *otp) stop(c *otpChild) {
	o.terminate(c)
	c.stopped, c.resting = true, false
	o.resume(o.root)
}

// want is restart_child for a stopped child, and here 6 what wakes one that rests.
func (o *otp) want(c *otpChild) {
	c.stopped, c.resting = false, false
	o.resume(o.root)
}
