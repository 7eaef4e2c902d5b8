package rules

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/display"
	"github.com/mcpvisor/mcpvisor/internal/hostcall"
)

// Question asks whether one call of a tool may be sent.
type Question struct {
	// ID names the question among those that are open. It cannot be guessed.
	ID string `json:"id"`
	// Principal, Client, Server and Tool are those of the call; see [mcpvisor.GuardedCall].
	Principal string `json:"principal,omitempty"`
	Client    string `json:"client,omitempty"`
	Server    string `json:"server"`
	Tool      string `json:"tool"`
	// Arguments are the bytes that will be sent. Do not change them.
	Arguments json.RawMessage `json:"arguments"`
	// InputResponses are those of [mcpvisor.GuardedCall], for a further round of a call. Do not change them.
	InputResponses json.RawMessage `json:"inputResponses,omitempty"`
	// Rule says which rule asks, as in "rule 2 (.mcp.json:12)", and that it asks about a further round.
	Rule string `json:"rule"`
	// Asked and Expires are when the question was asked, and when the call is refused without an answer.
	Asked   time.Time `json:"asked"`
	Expires time.Time `json:"expires"`
}

// Decision answers a [Question]. The zero Decision refuses.
type Decision struct {
	// Approve sends the call.
	Approve bool
	// Reason says why the call is refused; may be empty. It is part of the error of the call, so a language model sees it.
	Reason string
}

// Asker decides about one question. It must return when ctx ends: at the end of the call, or when the question expires. An
// error, a panic and a late answer refuse the call. It is called in a goroutine of its own, by several callers at once.
type Asker func(ctx context.Context, q Question) (Decision, error)

// Options bound the questions of a [Gate].
type Options struct {
	// Wait is how long a question is open. Default, and for 0 or less: 5 minutes.
	Wait time.Duration
	// Valid is how long an approval counts for further attempts to send its call. Default, and for 0 or less: 5 minutes.
	Valid time.Duration
	// MaxOpen is how many questions are open, and MaxOpenOfPrincipal how many of them those of one principal; further calls
	// are refused. Default, and for 0 or less: 256 and 32.
	MaxOpen, MaxOpenOfPrincipal int
	// Decided is told what became of each question, before the call is sent: refused is nil if it was approved, and otherwise
	// the error of the call. It is called by several callers at once, and they wait for it. It must not change the arguments.
	// nil: nothing is told.
	Decided func(q Question, refused error)
}

const (
	defaultWait               = 5 * time.Minute
	defaultMaxOpen            = 256
	defaultMaxOpenOfPrincipal = 32
	// MaxArgumentBytes is the most bytes of arguments, and of answers in a further round, that an asker is asked about. A
	// call with more is refused: people do not read that much.
	MaxArgumentBytes = 64 << 10
	// maxReasonBytes bounds the reason of a decision.
	maxReasonBytes = 500
)

// Gate is a [mcpvisor.CallGuard] that applies rules. Safe for concurrent use.
type Gate struct {
	ask     Asker
	options Options
	set     atomic.Pointer[Set]

	mu     sync.Mutex
	open   int            // questions; guarded by mu
	openOf map[string]int // those of each principal; guarded by mu
}

// NewGate makes a gate that asks ask. Without rules, until [Gate.Set], it allows every call. With nil it refuses every call
// that a rule asks about.
func NewGate(ask Asker, options Options) *Gate {
	setDefault(&options.Wait, defaultWait)
	setDefault(&options.Valid, defaultWait)
	setDefault(&options.MaxOpen, defaultMaxOpen)
	setDefault(&options.MaxOpenOfPrincipal, defaultMaxOpenOfPrincipal)
	return &Gate{ask: ask, options: options, openOf: map[string]int{}}
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// Set replaces the rules. They count for every attempt to send from now on, also of calls that wait for their server; open
// questions stay open.
func (g *Gate) Set(s *Set) { g.set.Store(s) }

// CheckCall implements [mcpvisor.CallGuard].
func (g *Gate) CheckCall(ctx context.Context, call mcpvisor.GuardedCall) (mcpvisor.Permit, error) {
	for {
		s := g.set.Load()
		if s == nil {
			return mcpvisor.Permit{}, nil
		}
		rule, number := s.Match(&call)
		switch {
		case rule.Do == Deny:
			return mcpvisor.Permit{}, fmt.Errorf("%s denies calls of %s; do not repeat it: the owner of the rules can change that", describe(rule, number), name(&call))
		case rule.Do == Allow && rule.PerMinute == 0:
			return mcpvisor.Permit{}, nil
		}
		digest := digestOf(&call, rule.Do)
		if call.Earlier.Digest == digest && time.Now().Before(call.Earlier.Expires) {
			return call.Earlier, nil
		}
		if rule.PerMinute > 0 {
			if after := s.limits[number-1].take(call.Principal, time.Now()); after > 0 {
				return mcpvisor.Permit{}, &mcpvisor.Error{Kind: mcpvisor.ErrOverloaded, Outcome: mcpvisor.OutcomeNotSent, RetryAfter: after,
					Cause: fmt.Errorf("%s lets a client make %d calls a minute", describe(rule, number), rule.PerMinute)}
			}
		}
		if rule.Do == Ask {
			if err := g.approve(ctx, &call, describe(rule, number)); err != nil {
				return mcpvisor.Permit{}, err
			}
		}
		call.Earlier = mcpvisor.Permit{Digest: digest, Expires: time.Now().Add(g.options.Valid)}
		if g.set.Load() == s {
			return call.Earlier, nil
		} // the rules have changed while a person decided
	}
}

func describe(r Rule, number int) string {
	if r.Source == "" {
		return fmt.Sprintf("rule %d", number)
	}
	return fmt.Sprintf("rule %d (%s)", number, r.Source)
}

func name(call *mcpvisor.GuardedCall) string {
	return display.Shorten(display.Line(mcpvisor.Qualify(call.Server, call.Tool)), maxReasonBytes)
}

// digestOf is the digest of what a rule has let pass: a call that was only counted is not approved.
func digestOf(call *mcpvisor.GuardedCall, by Action) (sum [32]byte) {
	h := sha256.New()
	for _, text := range []string{string(by), call.Principal, call.Server, call.Tool, fmt.Sprint(hintsOf(call.Definition)), string(call.InputResponses)} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		h.Write(length[:])
		h.Write([]byte(text))
	}
	h.Write(call.Arguments)
	h.Sum(sum[:0])
	return sum
}

// approve asks about a call. It returns nil if the call may be sent.
func (g *Gate) approve(ctx context.Context, call *mcpvisor.GuardedCall, rule string) error {
	refused := func(format string, args ...any) error {
		return fmt.Errorf("%s asks before calls of %s are sent, and "+format, append([]any{rule, name(call)}, args...)...)
	}
	shown := len(call.Arguments) + len(call.InputResponses)
	switch {
	case g.ask == nil:
		return refused("there is no one to ask; in mcpvisor run a person decides on the page or with mcpvisor approvals")
	case shown > MaxArgumentBytes:
		return refused("its arguments and answers have %d bytes, of at most %d that a person is shown; send less at once", shown, MaxArgumentBytes)
	}
	if !g.take(call.Principal) {
		return refused("%d calls wait for a decision already, or %d of this client; call again when they are decided", g.options.MaxOpen, g.options.MaxOpenOfPrincipal)
	}
	var id [5]byte
	_, _ = rand.Read(id[:]) // it never fails
	now := time.Now()
	q := Question{ID: hex.EncodeToString(id[:]), Principal: call.Principal, Client: call.Client, Server: call.Server, Tool: call.Tool,
		Arguments: bytes.Clone(call.Arguments), InputResponses: bytes.Clone(call.InputResponses), Rule: rule, Asked: now.Round(0), Expires: now.Add(g.options.Wait).Round(0)}
	if q.InputResponses != nil {
		q.Rule += " (a further round)"
	}
	asked, cancel := context.WithTimeout(ctx, g.options.Wait)
	defer cancel()
	principal := call.Principal
	d, err := hostcall.Wait(asked, "asker", nil, func(ctx context.Context) (Decision, error) {
		defer g.give(principal) // an asker that does not return keeps its place
		return g.ask(ctx, q)
	})
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case asked.Err() != nil:
		err = refused("there was no decision within %v", g.options.Wait)
	case err != nil:
		err = refused("it could not be decided: %s", display.Shorten(display.Line(hostcall.SafeError("asker", err).Error()), maxReasonBytes))
	case !d.Approve && d.Reason != "":
		err = refused("it was refused: %s", display.Shorten(display.Line(d.Reason), maxReasonBytes))
	case !d.Approve:
		err = refused("it was refused; do not repeat it")
	}
	if g.options.Decided != nil {
		decided := q // the asker may still use q
		decided.Arguments, decided.InputResponses = call.Arguments, call.InputResponses
		g.options.Decided(decided, err)
	}
	return err
}

// take counts one more open question, unless there are too many.
func (g *Gate) take(principal string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open >= g.options.MaxOpen || g.openOf[principal] >= g.options.MaxOpenOfPrincipal {
		return false
	}
	g.open++
	g.openOf[principal]++
	return true
}

func (g *Gate) give(principal string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.openOf[principal]--; g.openOf[principal] == 0 {
		delete(g.openOf, principal)
	}
}

// ErrNoQuestion is the error of a decision about a question that is not open.
var ErrNoQuestion = errors.New("no such question is open: it was decided, has expired, or its call has ended")
