package roundtrip

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/seal"
	"github.com/mcpvisor/mcpvisor/internal/canonical"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Each requestState that a client of 2026-07-28 gets is sealed, whether it is that of a server or that
// of a held call. A server does not know the clients of the gateway apart, so the gateway checks whether
// a state belongs to the client and to the request.

// StateTime is how long the requestState of a server is valid.
const StateTime = time.Hour

// state is what a sealed requestState contains.
type state struct {
	server string          // empty if only the client that makes the call knows
	inner  json.RawMessage // the requestState of the server, unchanged; nil for a held call

	digest              string // of the request
	instance, id, round string // of a held call
}

// The kinds of sealed texts, and the letters with which a requestState begins.
const (
	heldKind, heldPrefix   = "held call", "h"
	stateKind, statePrefix = "requestState", "s"
)

var (
	errStateForged  = message.InvalidParams("the requestState was not made by this gateway, or was changed; send it back as it was")
	errStateOther   = message.InvalidParams("the requestState is of another client")
	errStateRequest = message.InvalidParams("the requestState is of another request; repeat the request with the same params")
	errStateMoved   = message.InvalidParams("the requestState is of another server, which had the name in the request before; list again, and begin again without requestState")
	errStateExpired = message.InvalidParams("the requestState has expired, and its call has been given up. It may have had an effect; begin again without requestState only if it may run twice.")
	errStateUsed    = message.InvalidParams("the requestState was used before, or its call has ended. It may have had an effect; begin again without requestState only if it may run twice.")
)

// IsHeld reports whether a requestState has the form of one for a held call.
func IsHeld(raw json.RawMessage) bool {
	text, err := jsonscan.ReadString(raw)
	return err == nil && strings.HasPrefix(text, heldPrefix)
}

// open reads the requestState in a request of an owner. The digest binds the state to the name that the
// request uses for its target, and not to the server: settings may have renamed the target meanwhile.
func (s *Store) open(owner string, r *Request, raw json.RawMessage) (*state, error) {
	text, err := jsonscan.ReadString(raw)
	if err != nil || text == "" {
		return nil, errStateForged
	}
	var fields []string
	said := new(state)
	switch prefix, sealed := text[:1], text[1:]; prefix {
	case heldPrefix:
		if fields, err = seal.Open(s.key, heldKind, sealed); err == nil && len(fields) == 7 {
			said.instance, said.id, said.round = fields[4], fields[5], fields[6]
		}
	case statePrefix:
		if fields, err = seal.Open(s.key, stateKind, sealed); err == nil && len(fields) == 5 {
			said.inner = json.RawMessage(fields[4])
		}
	}
	if said.id == "" && said.inner == nil {
		return nil, errStateForged
	}
	said.server, said.digest = fields[1], fields[2]
	switch {
	case fields[0] != owner:
		return nil, errStateOther
	case said.digest != digestOf(r):
		return nil, errStateRequest
	case !time.Now().Before(seal.ReadTime(fields[3])):
		return nil, errStateExpired
	}
	return said, nil
}

// digestOf returns a digest of what is the same in all requests of one exchange. The order of members
// and the white space do not count.
func digestOf(r *Request) string {
	var members jsonscan.Object
	_ = jsonscan.EachMember(r.Params, func(key string, value []byte) error { // they are an object: they name a target
		if !slices.Contains([]string{"_meta", "inputResponses", "requestState"}, key) {
			members.Add(key, value)
		}
		return nil
	})
	hash := sha256.New()
	hash.Write([]byte(r.Method + "\x00"))
	hash.Write(canonical.Append(nil, members.Close()))
	return string(hash.Sum(nil))
}

// OpenResult is the inverse of SealResult: it returns the requestState that a server has sent. It
// refuses a state of another owner, request or server, and a state of a held call.
func (s *Store) OpenResult(owner string, r *Request, server string, raw json.RawMessage) (json.RawMessage, error) {
	said, err := s.open(owner, r, raw)
	switch {
	case err != nil:
		return nil, err
	case said.inner == nil:
		return nil, errStateForged
	case said.server != server:
		return nil, errStateMoved
	}
	return said.inner, nil
}

// SealResult seals the requestState in a result that requires input. Other results are returned
// unchanged.
func (s *Store) SealResult(owner string, r *Request, server string, result json.RawMessage) json.RawMessage {
	required, ok := relay.ReadInputRequired(result)
	if !ok || required.RequestState == nil {
		return result
	}
	sealed := statePrefix + seal.Seal(s.key, stateKind, owner, server, digestOf(r), seal.Time(time.Now().Add(StateTime)),
		string(required.RequestState))
	return jsonscan.ReplaceMember(result, "requestState", []byte(`"`+sealed+`"`))
}

// errGatewayEnded is the error of a call whose gateway has ended while its client answered.
func errGatewayEnded(server string) error {
	return &mcpvisor.Error{Op: "continue a call", Server: server, Kind: mcpvisor.ErrInterrupted, Outcome: mcpvisor.OutcomeUnknown, Cause: errRestarted}
}

var errRestarted = errors.New("the gateway has ended while the client answered")
