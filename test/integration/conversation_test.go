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

	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
)

// What servers ask of the host and tell it, in a storm: handlers that answer
// them, progress, subscriptions, a log level, and lists that change.
const (
	storyURI = "mcptest://text" // subscribed to at every server
	steps    = 4                // of slow_progress
	guest    = "guest"          // the tool that comes and goes
	question = "What is the key?"
)

// talking makes a client that answers whatever servers ask.
func talking() []facade.Option {
	// A form comes back with the key that its question ends with: each answer
	// belongs to one call.
	form := func(_ context.Context, r facade.ElicitRequest) (*facade.ElicitResult, error) {
		return &facade.ElicitResult{Action: "accept", Content: map[string]any{"key": strings.TrimPrefix(r.Message, question)}}, nil
	}
	say := func(_ context.Context, r facade.SampleRequest) (*facade.SampleResult, error) {
		return &facade.SampleResult{Model: "storm", Content: []mcp.Content{&mcp.TextContent{Text: r.SystemPrompt}}}, nil
	}
	return []facade.Option{facade.WithOnElicit(form), facade.WithOnSample(say), facade.WithRoots(facade.Root{URI: "file:///storm", Name: "storm"})}
}

// asking is the arguments of a consultation about a key. The go-sdk's server
// asks a client of an older version one round only.
func asking(server, key string) map[string]any {
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

// answered is the key in the answer of a consultation.
func answered(text string) string {
	var said struct {
		Content json.RawMessage
		Error   json.RawMessage
	}
	var form struct{ Key, Text string }
	if json.Unmarshal([]byte(text), &said) != nil || json.Unmarshal(said.Content, &form) != nil {
		return text
	}
	return form.Key + form.Text
}

// progressed is what a call of slow_progress has to have seen when it returns.
func progressed() string {
	var seen []float64
	for n := range steps {
		seen = append(seen, float64(n+1))
	}
	return fmt.Sprint(seen)
}

// wish has a server tell what it tells, as long as it is registered.
func (s *storm) wish(target *target) {
	if target.silent {
		return
	}
	for _, err := range []error{s.c.Subscribe(s.within(), target.name(), storyURI), s.c.SetLogLevel(s.within(), target.name(), "info")} {
		if err != nil && !isOne(err, facade.ErrUnknownServer, facade.ErrClosed, facade.ErrCanceled) {
			s.note("%s does not want to tell: %v", target.name(), err)
		}
	}
}

// requireTelling is for after the storm: each server still tells what the host
// wished for, and its lists follow its truth.
func (s *storm) requireTelling() {
	for _, target := range s.targets {
		if target.churned {
			s.wish(target) // the registration may be another one
		}
		if target.silent {
			s.call(target, "remove_tool", map[string]any{"name": guest})
			require.NoError(s.t, s.c.Refresh(s.within(), target.name()))
			s.requireShown(target, false)
			continue
		}
		s.speakLatest(target)
		s.requireHeard(target)
		s.call(target, "add_tool", map[string]any{"name": guest})
		s.requireShown(target, true)
		s.call(target, "remove_tool", map[string]any{"name": guest})
		s.requireShown(target, false)
	}
}

// speakLatest starts a server anew that was broken in the moment in which it was
// asked for its version: such a one is spoken to in an older one, in which a
// server without sessions has no way to tell anything.
func (s *storm) speakLatest(target *target) {
	if target.web == nil || target.name() != "modern" {
		return
	}
	for soon := s.within(); ; pause(soon, tick) {
		require.NoError(s.t, s.c.WaitReady(soon, target.name()))
		st, ok := s.c.Inspect(target.name())
		if ok && st.Session != nil && st.Session.ProtocolVersion == mcptest.Version20260728 {
			return
		}
		require.NoError(s.t, soon.Err(), "%s does not speak the latest version any more", target.name())
		require.NoError(s.t, s.c.Restart(soon, target.name()))
	}
}

func (s *storm) requireShown(target *target, want bool) {
	until(s.within(), s.t, fmt.Sprintf("%s shows its guest: %t", target.name(), want), func() bool {
		_, ok := s.c.Tool(target.name() + "/" + guest)
		return ok == want
	})
}

// requireHeard waits until a change of the resource and a line of the log have
// been heard. A stream that was cut is opened again in a while, so that both are
// said more than once.
func (s *storm) requireHeard(target *target) {
	from, soon := len(s.events.all()), s.within()
	for n := 0; ; n++ {
		text := fmt.Sprintf("after the storm %d", n)
		s.call(target, "touch", map[string]any{"uri": storyURI})
		s.call(target, "log", map[string]any{"level": "warning", "text": text})
		pause(soon, 20*time.Millisecond)
		fresh := s.events.all()[from:]
		touched := slices.ContainsFunc(fresh, func(e facade.Event) bool {
			return e.Server == target.name() && e.Kind == facade.EventResourceUpdated && e.URI == storyURI
		})
		logged := slices.ContainsFunc(fresh, func(e facade.Event) bool {
			return e.Server == target.name() && e.Kind == facade.EventLog && strings.HasPrefix(e.Log.Text, "after the storm")
		})
		if touched && logged {
			return
		}
		if soon.Err() != nil {
			require.Failf(s.t, "the server does not tell what was wished for", "%s: resource %t, log %t", target.name(), touched, logged)
		}
	}
}

// call calls a tool of a server that stands in no storm any more; one that is
// sloppy may still spoil an answer.
func (s *storm) call(target *target, tool string, args map[string]any) {
	for soon := s.within(); ; pause(soon, tick) {
		_, err := s.c.Call(soon, target.name()+"/"+tool, args, facade.WaitReady(), facade.WithTimeout(time.Second))
		if err == nil {
			return
		}
		if soon.Err() != nil || !target.sloppy {
			require.NoError(s.t, err, "%s of %s", tool, target.name())
		}
	}
}
