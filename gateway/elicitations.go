package gateway

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A server before 2026-07-28 that sends a user to a URL may say later that the interaction there has ended (MCP,
// client, elicitation, completion notifications). Its client is told, and nobody else. Since 2026-07-28 elicitations have
// no id, and there is no such notification.

const (
	// elicitationTime is how long the end of an interaction is waited for.
	elicitationTime = time.Hour
	// maxElicitations is how many interactions are waited for at once, and maxElicitationsOfSession how many of one
	// session. Beyond it the oldest of the session is forgotten, or that of a session that has the most.
	// maxElicitationID bounds an id, in bytes. Of others the client is not told.
	maxElicitations          = 1_000
	maxElicitationsOfSession = 64
	maxElicitationID         = 256
)

// sessionKey is the identity of a session before 2026-07-28: of a Transport its connection, and over HTTP the nonce, as
// a session without anything is made again for each request.
type sessionKey struct {
	conn  *connection
	nonce nonce
}

// elicitationName says which interaction it is: a server must not use an id twice, but each copy may use it.
type elicitationName struct {
	client *facade.Client // where the server is registered
	tenant string         // tenant.key of the session whose copy of the server it is; empty: sessions share the server
	server string
	id     string
}

func (c *connection) elicitationName(server, id string) elicitationName {
	name := elicitationName{client: c.client, server: server, id: id}
	if c.isCopied(server) {
		name.tenant = c.tenantKey
	}
	return name
}

// elicitation is an interaction at a URL.
type elicitation struct {
	session sessionKey
	conn    *connection
	id      string // by which the client knows it
	several bool   // sessions have been asked under the same id: whose it is, is not known
	expires time.Time
}

// elicitations are the interactions of which the gateways with the same settings wait for the end. They follow a
// facade.Client while there are any of servers that sessions share there. The zero value has none. Safe for
// concurrent use. No lock of a gateway is taken under theirs.
type elicitations struct {
	mu      sync.Mutex // guards the fields below
	open    map[elicitationName]*elicitation
	follows map[*facade.Client]func() // what ends it
}

// readElicitationID returns the id in the params of an elicitation by URL; empty if they have none.
func readElicitationID(params json.RawMessage) (id string) {
	byURL := false
	_ = jsonscan.EachMember(params, func(key string, value []byte) (err error) { // the engine has read it
		switch key {
		case "mode":
			byURL = string(value) == `"url"`
		case "elicitationId":
			id, err = jsonscan.ReadString(value)
		}
		return err
	})
	if !byURL || len(id) > maxElicitationID {
		return ""
	}
	return id
}

// begin notes that a session is asked for an interaction, and returns the params that it is asked with: with another
// id if another server of the session uses the same one. undo is called if the session could not be asked.
func (e *elicitations) begin(c *connection, server string, params, shown json.RawMessage) (asked json.RawMessage, undo func()) {
	undo = func() {}
	id := readElicitationID(params)
	if id == "" || c.notify.key == (sessionKey{}) {
		return shown, undo
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expireLocked()
	name, key := c.elicitationName(server, id), c.notify.key
	if before := e.open[name]; before != nil {
		if before.session != key {
			before.several = true
			return shown, undo
		}
		before.conn, before.expires = c, time.Now().Add(elicitationTime)
		if before.id != id {
			return message.ReplaceMember(shown, "elicitationId", message.JSON(before.id)), undo
		}
		return shown, undo
	}
	e.makeRoomLocked(key)
	made := &elicitation{session: key, conn: c, id: id, expires: time.Now().Add(elicitationTime)}
	for _, other := range e.open {
		if other.session == key && other.id == id {
			made.id = rand.Text()
			shown = message.ReplaceMember(shown, "elicitationId", message.JSON(made.id))
			break
		}
	}
	if e.open == nil {
		e.open, e.follows = map[elicitationName]*elicitation{}, map[*facade.Client]func(){}
	}
	e.open[name] = made
	if name.tenant == "" && e.follows[c.client] == nil {
		e.follows[c.client] = e.follow(c.client, c.client, "")
	}
	return shown, func() { e.forget(func(one *elicitation) bool { return one == made }) }
}

// follow learns what a client, or the copy of a tenant, reports.
func (e *elicitations) follow(from, registered *facade.Client, tenant string) (stop func()) {
	return from.FollowElicitations(func(done facade.ElicitationComplete) {
		e.complete(elicitationName{registered, tenant, done.Server, done.ElicitationID})
	})
}

// followElicitations learns what a copy reports, until it is closed. Principals have no session that is told.
func (t *tenant) followElicitations(copied *facade.Client) {
	if t.key != "" {
		t.gateway.elicitations.follow(copied, t.gateway.client, t.key)
	}
}

// makeRoomLocked forgets an interaction if there are too many for one more of a session.
func (e *elicitations) makeRoomLocked(key sessionKey) {
	of := map[sessionKey]int{}
	for _, one := range e.open {
		of[one.session]++
	}
	most := of[key]
	own := most >= maxElicitationsOfSession
	if !own {
		if len(e.open) < maxElicitations {
			return
		}
		most = slices.Max(slices.Collect(maps.Values(of)))
	}
	var name elicitationName
	var oldest *elicitation
	for n, one := range e.open {
		if of[one.session] == most && (!own || one.session == key) && (oldest == nil || one.expires.Before(oldest.expires)) {
			name, oldest = n, one
		}
	}
	delete(e.open, name)
}

// codeURLRequired is the code of an error that names the interactions without which a request cannot be served.
const codeURLRequired = -32042

// beginRequired notes the interactions that the error of a server names.
func (e *elicitations) beginRequired(c *connection, err error) {
	var wire *jsonrpc.Error
	var of *mcpvisor.Error
	if !errors.As(err, &wire) || wire.Code != codeURLRequired || !errors.As(err, &of) || c.notify.key == (sessionKey{}) {
		return
	}
	_ = jsonscan.EachMember(wire.Data, func(key string, value []byte) error { // it is valid JSON, or has no members
		if key == "elicitations" {
			named := 0
			jsonscan.EachItem(value, func(item []byte) bool {
				if shown, undo := e.begin(c, of.Server, item, item); !bytes.Equal(shown, item) {
					undo() // another server has the id, and the error is passed on as it is
				}
				named++
				return named < maxElicited
			})
		}
		return nil
	})
}

// complete tells the session whose interaction has ended.
func (e *elicitations) complete(name elicitationName) {
	e.mu.Lock()
	one := e.open[name]
	if one == nil {
		e.mu.Unlock()
		return
	}
	delete(e.open, name)
	stop := e.restLocked()
	e.mu.Unlock()
	stop()
	if !one.several && time.Now().Before(one.expires) {
		one.conn.tellElicited(name.server, one.session, one.id)
	}
}

func (e *elicitations) expireLocked() {
	now := time.Now()
	for name, one := range e.open {
		if !now.Before(one.expires) {
			delete(e.open, name)
		}
	}
}

// forgetSession forgets the interactions of a session that has ended for good. One over HTTP may continue after the end of
// its connection.
func (e *elicitations) forgetSession(key sessionKey) {
	e.forget(func(one *elicitation) bool { return one.session == key })
}

func (e *elicitations) forget(which func(*elicitation) bool) {
	e.mu.Lock()
	maps.DeleteFunc(e.open, func(_ elicitationName, one *elicitation) bool { return which(one) })
	stop := e.restLocked()
	e.mu.Unlock()
	stop()
}

// restLocked returns what ends the following of clients of which nothing is waited for.
func (e *elicitations) restLocked() (stop func()) {
	rest := maps.Clone(e.follows)
	for name := range e.open {
		if name.tenant == "" {
			delete(rest, name.client)
		}
	}
	for client := range rest {
		delete(e.follows, client)
	}
	return func() {
		for _, end := range rest {
			end()
		}
	}
}

// tellElicited tells a session that an interaction has ended: on the stream of a call at the server, or else on that of
// the session.
func (c *connection) tellElicited(server string, session sessionKey, id string) {
	c.questions.mu.Lock()
	carrier := c.questions.carrierLocked(server)
	c.questions.mu.Unlock()
	if carrier != nil {
		carrier.out.addNote(carrier, elicitedNotification(id))
		return
	}
	c.hub.each(func(n *notifier) {
		if n.key == session {
			n.reportElicited(id)
		}
	})
}

func elicitedNotification(id string) jsonrpc.Message {
	return message.Notification("notifications/elicitation/complete", map[string]any{"elicitationId": id})
}

// maxElicited is how many ended interactions wait to be read. The oldest are dropped.
const maxElicited = 64

// reportElicited notes that an interaction has ended.
func (n *notifier) reportElicited(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.elicited = append(n.elicited, id); len(n.elicited) > maxElicited {
		n.elicited = n.elicited[1:]
	}
	n.signalLocked()
}
