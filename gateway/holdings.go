package gateway

import (
	"cmp"
	"math"
	"sync"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/internal/budget"
	"github.com/mcpvisor/mcpvisor/internal/defaults"
)

// holdings counts what the peers make the gateways with the same settings hold, in bytes: sessions,
// subscriptions, bodies of requests, large answers and notifications that wait to be read, shortened results,
// open questions of tasks and held calls. Each principal has a budget, and all of them are children of one. A session has a budget below that
// of its principal: without tokens all peers are one principal. No client may hold more than is still free, at each of the two
// levels (budget.Take). The zero value is ready for use.
type holdings struct {
	mu    sync.Mutex // guards the fields below
	total *budget.Budget
	of    map[string]*holder // by principal
}

// holder is the budget of a principal. It is kept while something refers to it, or is held.
type holder struct {
	*budget.Budget
	users int
}

// enter returns the budget of a principal. Each call needs one of leave.
func (v *SettingsVar) enter(principal string) *budget.Budget {
	v.holdings.mu.Lock()
	defer v.holdings.mu.Unlock()
	return v.holdings.enterLocked(principal, v.load()).Budget
}

// resize gives all budgets the bounds of the settings that v has now.
func (h *holdings) resize(v *SettingsVar) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := v.load()
	if h.total != nil {
		h.total.Resize(heldByAll(&s.Settings))
	}
	for _, p := range h.of {
		p.Resize(heldByPrincipal(&s.Settings))
	}
}

func heldByPrincipal(s *Settings) int64 {
	if s.MaxHeldByPrincipal > 0 {
		return s.MaxHeldByPrincipal
	}
	return settings.DefaultMaxHeldByPrincipal
}

// heldByAll is by default a quarter of the memory limit of the process; without one, a fixed number of bytes.
func heldByAll(s *Settings) int64 {
	if n := defaults.Within(math.MaxInt, 4); s.MaxHeldByAll <= 0 && n < math.MaxInt/4 {
		return int64(n)
	}
	return cmp.Or(max(s.MaxHeldByAll, 0), 1<<30)
}

func (h *holdings) enterLocked(principal string, s *checked) *holder {
	if h.of == nil {
		h.total, h.of = budget.New(0, nil), map[string]*holder{}
		h.total.Resize(heldByAll(&s.Settings))
	}
	p := h.of[principal]
	if p == nil {
		for name, idle := range h.of {
			if idle.users == 0 && idle.Used() == 0 {
				delete(h.of, name)
			}
		}
		p = &holder{Budget: budget.New(0, h.total)}
		p.Resize(heldByPrincipal(&s.Settings))
		h.of[principal] = p
	}
	p.users++
	return p
}

// leave ends what enter has begun.
func (h *holdings) leave(principal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaveLocked(principal)
}

func (h *holdings) leaveLocked(principal string) {
	if p := h.of[principal]; p != nil {
		if p.users--; p.users == 0 && p.Used() == 0 {
			delete(h.of, principal)
		}
	}
}

// hold counts bytes of a principal that refers to no budget. Negative bytes are given back.
func (v *SettingsVar) hold(principal string, bytes int) bool {
	h := &v.holdings
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.enterLocked(principal, v.load())
	defer h.leaveLocked(principal)
	if bytes < 0 {
		p.Return(-bytes)
		return true
	}
	return p.Take(bytes)
}

const (
	// sessionCost is what an active session over HTTP takes, in bytes, and subscriptionCost what a subscription takes
	// in addition to its URI, which is kept uriCopies times: by the session, for it and its server, and as an update.
	sessionCost      = 8 << 10
	subscriptionCost = 4 << 10
	uriCopies        = 4
)

// manyHeld says that a peer holds too much.
const manyHeld = "the gateway keeps too much for this client, or for all of its principal: read what waits, end subscriptions, or use fewer sessions; the operator can raise max_held_mib_per_principal and max_held_mib of the gateway"

// takeSubscription counts a subscription to a URI.
func (c *connection) takeSubscription(uri string) error {
	if !c.account.Take(subscriptionCost + uriCopies*len(uri)) {
		return message.Busy(manyHeld)
	}
	return nil
}

func (c *connection) returnSubscription(uri string) {
	c.account.Return(subscriptionCost + uriCopies*len(uri))
}
