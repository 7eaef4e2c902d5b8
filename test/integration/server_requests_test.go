//go:build linux

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// What a storm exercises beside calls: handlers that answer requests of servers,
// progress, subscriptions, a log level, and lists that change.
const (
	resourceURI = "mcptest://text" // every server has a subscription to it
	steps       = 4                // steps of slow_progress
	addedTool   = "addedTool"      // a tool that is added and removed
	question    = "What is the key?"
)

// answeringHandlers returns handlers that answer every request of a server.
func answeringHandlers() []facade.Option {
	// The answer to a form is the key at the end of its question, so each answer
	// belongs to one call.
	fillForm := func(_ context.Context, r facade.ElicitationRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"key": strings.TrimPrefix(r.Message, question)}}, nil
	}
	sample := func(_ context.Context, r facade.SamplingRequest) (*mcp.CreateMessageWithToolsResult, error) {
		return &mcp.CreateMessageWithToolsResult{Model: "storm", Content: []mcp.Content{&mcp.TextContent{Text: r.SystemPrompt}}}, nil
	}
	return []facade.Option{facade.WithElicitationHandler(fillForm), facade.WithSamplingHandler(sample), facade.WithRoots(mcp.Root{URI: "file:///storm", Name: "storm"})}
}

// consultArgs returns arguments of the tool consult, which requests the key from the
// client. The go-sdk's server can request it in one round only from clients of an older
// version.
func consultArgs(server, key string) map[string]any {
	rounds := 2
	if slices.Contains(webTargets, server) {
		rounds = 1
	}
	if key[len(key)-1]%2 == 0 {
		return map[string]any{"method": "sampling/createMessage", "rounds": rounds,
			"params": map[string]any{"maxTokens": 5, "systemPrompt": key, "messages": []any{}}}
	}
	return map[string]any{"method": "elicitation/create", "rounds": rounds, "params": map[string]any{"message": question + key,
		"requestedSchema": map[string]any{"type": "object", "properties": map[string]any{"key": map[string]string{"type": "string"}}}}}
}

// consultedKey returns the key that the client answered, from the result of consult.
func consultedKey(text string) string {
	var answer struct {
		Content json.RawMessage
		Error   json.RawMessage
	}
	var form struct{ Key, Text string }
	if json.Unmarshal([]byte(text), &answer) != nil || json.Unmarshal(answer.Content, &form) != nil {
		return text
	}
	return form.Key + form.Text
}

// expectedProgress is the progress that a call of slow_progress must have reported when
// it returns.
func expectedProgress() string {
	var seen []float64
	for n := range steps {
		seen = append(seen, float64(n+1))
	}
	return fmt.Sprint(seen)
}

// subscribeAll subscribes to the resource and sets the log level. The server may reject
// both.
func (w *fixture) subscribeAll(c *facade.Client, server string) {
	for _, err := range []error{c.Subscribe(w.within(), server, resourceURI), c.SetLoggingLevel(w.within(), server, "info")} {
		var e *mcpvisor.Error
		if err != nil {
			require.ErrorAs(w.t, err, &e)
		}
	}
}

// subscribe subscribes to the resource and sets the log level, if the server is
// registered.
func (s *storm) subscribe(target *target) {
	if target.noNotifications {
		return
	}
	for _, err := range []error{s.c.Subscribe(s.within(), target.name(), resourceURI), s.c.SetLoggingLevel(s.within(), target.name(), "info")} {
		if err != nil && !isAny(err, mcpvisor.ErrUnknownServer, mcpvisor.ErrClosed, mcpvisor.ErrCanceled) {
			s.recordViolation("%s rejected a subscription: %v", target.name(), err)
		}
	}
}

// requireNotifications runs after the faults. It requires that each server sends the
// notifications of its subscriptions, and that the catalog follows changes of the
// lists.
func (s *storm) requireNotifications() {
	for _, target := range s.targets {
		if target.churned || target.synced {
			s.subscribe(target) // a new registration has no subscriptions yet
		}
		h := &subscriberFixture{fixture: s.fixture, c: s.c, events: s.events, server: target.name(), retries: target.spec.Probe.Interval > 0 || target.web != nil}
		if target.noNotifications {
			h.call("remove_tool", map[string]any{"name": addedTool})
			require.NoError(s.t, s.c.Refresh(s.within(), target.name()))
			require.False(s.t, h.listsAddedTool(), "%s still lists the removed tool", target.name())
			continue
		}
		s.awaitLatestVersion(target)
		h.requireNotified()
	}
}

// awaitLatestVersion restarts the server "modern" until the latest version is
// negotiated. If a fault hit server/discover, the client fell back to an older version,
// in which a server without sessions sends no notifications.
func (s *storm) awaitLatestVersion(target *target) {
	if target.name() != "modern" {
		return
	}
	for soon := s.within(); ; pause(soon, pollInterval) {
		require.NoError(s.t, s.c.WaitReady(soon, target.name()))
		st, ok := s.c.ServerStatus(target.name())
		if ok && st.Session != nil && st.Session.ProtocolVersion == "2026-07-28" {
			return
		}
		require.NoError(s.t, soon.Err(), "%s no longer negotiates the latest version", target.name())
		require.NoError(s.t, s.c.Restart(soon, target.name()))
	}
}

// subscriberFixture checks that one server sends the notifications of its
// subscriptions.
type subscriberFixture struct {
	*fixture
	c      *facade.Client
	events *history
	server string
	// retries: calls are repeated, because an answer may be lost. The server garbles
	// its answers, a slow machine makes it fail its probes, or it still refuses requests.
	retries bool
}

// requireNotified waits for the notification of a resource, a log message and changes
// of the tool list. A broken stream reopens after a delay, so each notification is
// triggered several times.
func (h *subscriberFixture) requireNotified() {
	h.t.Helper()
	from, soon := len(h.events.all()), h.within()
	for n := 0; ; n++ {
		text := fmt.Sprintf("logged %d", n)
		h.call("touch", map[string]any{"uri": resourceURI})
		h.call("log", map[string]any{"level": "warning", "text": text})
		pause(soon, 20*time.Millisecond)
		fresh := h.events.all()[from:]
		touched := slices.ContainsFunc(fresh, func(e mcpvisor.Event) bool {
			return e.Server == h.server && e.Kind == mcpvisor.EventResourceUpdated && e.URI == resourceURI
		})
		logged := slices.ContainsFunc(fresh, func(e mcpvisor.Event) bool {
			return e.Server == h.server && e.Kind == mcpvisor.EventLog && strings.HasPrefix(e.Log.Text, "logged")
		})
		if touched && logged {
			break
		}
		if soon.Err() != nil {
			require.Failf(h.t, "the server does not send the notifications of its subscriptions", "%s: resource %t, log %t", h.server, touched, logged)
		}
	}
	h.requireListed("add_tool", true)
	h.requireListed("remove_tool", false)
}

// requireListed adds or removes a tool and waits until the catalog follows. A server
// that ends meanwhile loses the change, so the change is repeated in each epoch.
func (h *subscriberFixture) requireListed(change string, want bool) {
	h.t.Helper()
	for shown := false; !shown; {
		epoch := h.epoch()
		h.call(change, map[string]any{"name": addedTool})
		waitUntil(h.within(), h.t, fmt.Sprintf("%s lists addedTool: %t", h.server, want), func() bool {
			shown = h.listsAddedTool() == want
			return shown || h.epoch() != epoch
		})
	}
}

func (h *subscriberFixture) listsAddedTool() bool {
	_, ok := h.c.Tool(h.server + "/" + addedTool)
	return ok
}

// epoch returns the epoch of the current or last incarnation.
func (h *subscriberFixture) epoch() uint64 {
	st, ok := h.c.ServerStatus(h.server)
	require.True(h.t, ok, "%s is registered", h.server)
	return st.Epoch
}

func (h *subscriberFixture) call(tool string, args map[string]any) {
	h.t.Helper()
	for soon := h.within(); ; pause(soon, pollInterval) {
		_, err := h.c.CallTool(soon, h.server+"/"+tool, args, facade.WithWaitReady(), facade.WithTimeout(time.Second))
		if err == nil {
			return
		}
		if soon.Err() != nil || !h.retries {
			require.NoError(h.t, err, "%s of %s", tool, h.server)
		}
	}
}
