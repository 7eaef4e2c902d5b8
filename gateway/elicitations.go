package gateway

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A server before 2026-07-28 that sends a user to a URL may say later that the interaction there has ended (MCP,
// client, elicitation, completion notifications). Its client is told, and nobody else. Since 2026-07-28 elicitations have
// no id, and there is no such notification.

const (
	// elicitationTime is how long the end of an interaction is waited for.
	elicitationTime = time.Hour
	// maxElicitations is how many interactions are waited for at once; maxElicitationID bounds an id, in bytes.
	// Of others the client is not told.
	maxElicitations  = 1_000
	maxElicitationID = 256
)

// sessionKey is the identity of a session before 2026-07-28: of a Transport its connection, and over HTTP the nonce, as
// a session without anything is made again for each request.
type sessionKey struct {
	conn  *connection
	nonce nonce
}

// elicitationName is what a server calls an interaction.
type elicitationName struct{ server, id string }

// elicitation is an interaction at a URL.
type elicitation struct {
	session sessionKey
	conn    *connection
	id      string // by which the client knows it
	several bool   // sessions have been asked under the same id: whose it is, is not known
	expires time.Time
}

// elicitations are the interactions of which a gateway waits for the end. It follows the facade.Client while
// there are any. Safe for concurrent use. Its lock comes before those of sessions.
type elicitations struct {
	client *facade.Client

	mu   sync.Mutex // guards the fields below
	open map[elicitationName]*elicitation
	stop func() // nil while it does not follow
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
// id if another server of the session uses the same one.
func (e *elicitations) begin(c *connection, server string, params, shown json.RawMessage) json.RawMessage {
	id := readElicitationID(params)
	if id == "" || c.notify.key == (sessionKey{}) {
		return shown
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expireLocked()
	name, key := elicitationName{server, id}, c.notify.key
	if before := e.open[name]; before != nil {
		if before.session != key {
			before.several = true
			return shown
		}
		before.conn, before.expires = c, time.Now().Add(elicitationTime)
		if before.id != id {
			return replaceMember(shown, "elicitationId", quoted(before.id))
		}
		return shown
	}
	if len(e.open) == maxElicitations {
		return shown
	}
	made := &elicitation{session: key, conn: c, id: id, expires: time.Now().Add(elicitationTime)}
	for _, other := range e.open {
		if other.session == key && other.id == id {
			made.id = rand.Text()
			shown = replaceMember(shown, "elicitationId", quoted(made.id))
			break
		}
	}
	e.open[name] = made
	if e.stop == nil {
		e.stop = e.client.FollowElicitations(e.complete)
	}
	return shown
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
				if shown := e.begin(c, of.Server, item, item); !bytes.Equal(shown, item) {
					e.forget(of.Server, item) // another server has the id, and the error is passed on as it is
				}
				named++
				return named < maxElicited
			})
		}
		return nil
	})
}

// forget forgets an interaction.
func (e *elicitations) forget(server string, params json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, elicitationName{server, readElicitationID(params)})
}

// complete tells the session whose interaction has ended.
func (e *elicitations) complete(done facade.ElicitationComplete) {
	e.mu.Lock()
	name := elicitationName{done.Server, done.ElicitationID}
	one := e.open[name]
	delete(e.open, name)
	stop := e.restLocked()
	e.mu.Unlock()
	stop()
	if one == nil || one.several || !time.Now().Before(one.expires) {
		return
	}
	one.conn.tellElicited(done.Server, one.session, one.id)
}

func (e *elicitations) expireLocked() {
	now := time.Now()
	for name, one := range e.open {
		if !now.Before(one.expires) {
			delete(e.open, name)
		}
	}
}

// endSession forgets the interactions of a session that has ended for good.
func (e *elicitations) endSession(c *connection) {
	if !c.connected { // a session over HTTP may continue
		return
	}
	e.mu.Lock()
	for name, one := range e.open {
		if one.conn == c {
			delete(e.open, name)
		}
	}
	stop := e.restLocked()
	e.mu.Unlock()
	stop()
}

// restLocked returns what ends the following, if there is nothing to wait for.
func (e *elicitations) restLocked() (stop func()) {
	if len(e.open) > 0 || e.stop == nil {
		return func() {}
	}
	stop, e.stop = e.stop, nil
	return stop
}

// close forgets all interactions.
func (e *elicitations) close() {
	e.mu.Lock()
	clear(e.open)
	stop := e.restLocked()
	e.mu.Unlock()
	stop()
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
	return notification("notifications/elicitation/complete", map[string]any{"elicitationId": id})
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
