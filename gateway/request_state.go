package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// A client of 2026-07-28 gets each requestState sealed: that of a server since 2026-07-28, and that of a
// held call. To a server all clients of the gateway are one, so the gateway checks whose state it is, and
// to which request it belongs.

// stateTime is how long the requestState of a server is good.
const stateTime = time.Hour

// requestState is what a sealed requestState says.
type requestState struct {
	server string // as in serverOf
	digest string // of the request

	// Of a held call; see heldCall.
	instance, id, round string

	// Of a server: the value as it was sent.
	inner json.RawMessage
}

// The kinds of sealed texts, and the letters with which a requestState begins.
const (
	heldKind, heldPrefix   = "held call", "h"
	stateKind, statePrefix = "requestState", "s"
)

func (g *gateway) sealHeld(owner string, s *requestState) string {
	return heldPrefix + seal.Seal(g.opts.key, heldKind, owner, s.server, s.digest, seal.Time(time.Now().Add(holdTime)), s.instance, s.id, s.round)
}

func (g *gateway) sealInner(owner string, s *requestState) string {
	return statePrefix + seal.Seal(g.opts.key, stateKind, owner, s.server, s.digest, seal.Time(time.Now().Add(stateTime)), string(s.inner))
}

var (
	errStateForged  = message.InvalidParams("the requestState was not made by this gateway, or was changed; send it back as it was")
	errStateOther   = message.InvalidParams("the requestState is of another client")
	errStateRequest = message.InvalidParams("the requestState is of another request; repeat the request with the same params")
	errStateMoved   = message.InvalidParams("the requestState is of another server, of which the name of the request was before; list again, and begin again without requestState")
	errStateExpired = message.InvalidParams("the requestState has expired, and its call has been given up. It may have had an effect; begin again without requestState only if it may run twice.")
	errStateUsed    = message.InvalidParams("the requestState was used before, or its call has ended. It may have had an effect; begin again without requestState only if it may run twice.")
)

// isHeldState reports whether a requestState says that it is of a held call.
func isHeldState(raw json.RawMessage) bool {
	text, err := jsonscan.ReadString(raw)
	return err == nil && strings.HasPrefix(text, heldPrefix)
}

// openState reads the requestState of a request. The digest binds the name that the request has for its target, and
// not the server, which settings may give another name meanwhile.
func (c *connection) openState(r *request, raw json.RawMessage) (*requestState, error) {
	text, err := jsonscan.ReadString(raw)
	if err != nil || text == "" {
		return nil, errStateForged
	}
	var fields []string
	s := new(requestState)
	switch prefix, sealed := text[:1], text[1:]; prefix {
	case heldPrefix:
		if fields, err = seal.Open(c.opts.key, heldKind, sealed); err == nil && len(fields) == 7 {
			s.instance, s.id, s.round = fields[4], fields[5], fields[6]
		}
	case statePrefix:
		if fields, err = seal.Open(c.opts.key, stateKind, sealed); err == nil && len(fields) == 5 {
			s.inner = json.RawMessage(fields[4])
		}
	}
	if s.id == "" && s.inner == nil {
		return nil, errStateForged
	}
	s.server, s.digest = fields[1], fields[2]
	switch {
	case fields[0] != c.owner:
		return nil, errStateOther
	case s.digest != digestOf(r):
		return nil, errStateRequest
	case !time.Now().Before(seal.ReadTime(fields[3])):
		return nil, errStateExpired
	}
	return s, nil
}

// digestOf is the digest of a request, without what differs between its rounds. The order of members and
// the space between values do not count.
func digestOf(r *request) string {
	d := json.NewDecoder(bytes.NewReader(r.Params))
	d.UseNumber()
	members := map[string]any{}
	_ = d.Decode(&members) // the params are an object: they name a target
	for _, name := range []string{"_meta", "inputResponses", "requestState"} {
		delete(members, name)
	}
	hash := sha256.New()
	hash.Write([]byte(r.Method + "\x00"))
	_ = json.NewEncoder(hash).Encode(members) //nolint:errchkjson // it was decoded from JSON
	return string(hash.Sum(nil))
}

// sealInnerState seals the requestState in a result that requires input; other results stay as they are.
func (c *connection) sealInnerState(r *request, server string, result json.RawMessage) json.RawMessage {
	required, ok := facade.ReadInputRequired(result)
	if !ok || required.RequestState == nil {
		return result
	}
	sealed := c.sealInner(c.owner, &requestState{server: server, digest: digestOf(r), inner: required.RequestState})
	return message.ReplaceMember(result, "requestState", []byte(`"`+sealed+`"`))
}

// errGatewayEnded is the error of a call whose gateway has ended while its client answered.
func errGatewayEnded(server string) error {
	return &mcpvisor.Error{Op: "continue a call", Server: server, Kind: mcpvisor.KindInterrupted, Outcome: mcpvisor.OutcomeUnknown, Cause: errRestarted}
}

var errRestarted = errors.New("the gateway has ended while the client answered")
