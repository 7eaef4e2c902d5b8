package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/longresult"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/opentasks"
	"github.com/mcpvisor/mcpvisor/gateway/internal/resource"
	"github.com/mcpvisor/mcpvisor/gateway/internal/tasktext"
	"github.com/mcpvisor/mcpvisor/internal/task"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// callTool answers tools/call (MCP, server, tools). Arguments that the tool does not take are an
// error of the tool, which the model can correct; a request that is not one of tools/call, and
// an unknown tool, are JSON-RPC errors (there: error handling).
func (r *request) callTool() (any, error) {
	p := r.params
	answerTo := func(err error) (json.RawMessage, error) {
		if wire, refused := err.(*jsonrpc.Error); refused { // by beginTaskCall, or because there is no copy for it
			return nil, wire
		}
		if isUnknown(err) {
			return nil, r.gateway.unknown("tool", p.name)
		}
		if errors.Is(err, mcpvisor.ErrRPC) {
			return nil, r.session.protocolError(p.name, err)
		}
		return message.Result(r.gateway.client.ErrorForModel(p.name, err), p.modern())
	}
	checkArguments := func(tool string) error {
		if r.exchange.http == nil {
			return nil
		}
		return r.exchange.http.checkArguments(tool, p.modern(), r.Params)
	}
	if err := checkArguments(cmp.Or(r.gateway.catalog.Last().ToolByName[p.name], p.name)); err != nil {
		return nil, err
	}
	if result, held, err := r.resumeHeld(answerTo); held {
		return result, err
	}
	tool, err := r.session.findTool(r.ctx, p.name)
	if err != nil {
		return nil, err
	}
	server := serverOf(tool)
	return (&upstreamRequest{
		request: r, server: server,
		send: func(ctx context.Context, opts ...facade.CallOption) (result json.RawMessage, err error) {
			tasks, opts, err := r.session.beginTaskCall(p, tool, opts)
			if err != nil {
				return nil, err
			}
			defer tasks.end()
			err = r.session.tenancy.whenUp(ctx, server, func(client *facade.Client) (err error) {
				if err := checkArguments(tool); err != nil { // its server may have come up now
					return err
				}
				if tasks.copy = ""; client != r.gateway.client {
					tasks.copy = r.session.tenancy.copyKey(server)
				}
				result, err = client.CallToolRaw(ctx, tool, p.arguments, opts...)
				return err
			})
			if err != nil {
				return nil, err
			}
			return r.session.shortenResult(p.name, tool, tasks.result(result)), nil
		},
		answerTo: answerTo, offered: func() bool { return r.gateway.offersTool(tool) },
	}).perform()
}

// taskCall is a tool call that may become a task.
type taskCall struct {
	session *session
	modern  bool
	tool    string
	relay   *relay.TaskRelay // nil: the client gets no task
	copy    string           // key of the tenant whose copy got the call; empty: none
}

// beginTaskCall adds the options about tasks, and the key of the call. Each call needs one of end.
func (s *session) beginTaskCall(p *params, tool string, opts []facade.CallOption) (*taskCall, []facade.CallOption, error) {
	made := &taskCall{session: s, modern: p.modern(), tool: tool}
	switch {
	case p.hasKey: // the journal follows the task
		return made, append(opts, relay.WithKeyOf(s.holdOwner.Principal, p.key)), nil
	case made.modern && p.tasks:
		made.relay = &relay.TaskRelay{}
	case made.modern:
		return made, append(opts, relay.WithoutTasks()), nil
	case len(p.task) > 0 && s.followsTasks.Load():
		if listed, ok := s.gateway.client.Tool(tool); ok && listed.TaskSupport == "" {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the tool " + message.Quote(p.name) + " cannot be called as a task. Nothing was sent."}
		}
		made.relay = &relay.TaskRelay{TTL: readTTL(p.task)}
	default:
		return made, opts, nil
	}
	if err := s.gateway.tasks.Reserve(s.owner); err != nil {
		return nil, nil, err
	}
	return made, append(opts, relay.WithTaskRelay(made.relay)), nil
}

// end gives back what the call holds.
func (t *taskCall) end() {
	if t.relay != nil {
		t.session.gateway.tasks.Release(t.session.owner)
	}
}

// result returns the result of the call for the client: the task, if the call has become one.
func (t *taskCall) result(raw json.RawMessage) json.RawMessage {
	if t.relay == nil || t.relay.ID == "" || !task.Is(raw, t.relay.Modern) { // an interceptor may have replaced it
		return raw
	}
	s, name := t.session, opentasks.Name{Server: t.relay.Server, ID: t.relay.ID, Origin: t.relay.Origin, Copy: t.copy}
	said, _ := task.Read(raw) // it is valid: the facade has read it
	sealed := s.sealTask(name, t.tool, time.Now().Add(max(s.gateway.opts.http.SessionLifetime, said.TTL)))
	s.gateway.tasks.Said(s.owner, opentasks.Maker{Peer: s.peer, Tool: t.tool}, name, sealed, raw, said.Status.Final() && t.modern)
	if !t.modern {
		s.watchLegacyTask(&taskHandle{session: s, name: name, sealed: sealed, tool: t.tool})
	}
	return tasktext.Text{Modern: t.modern, Sealed: sealed, ID: name.ID}.Created(raw)
}

// findTool returns the name by which the client calls a tool: its qualified name, if the gateway
// lists the tool under that name. Qualified names and aliases stand for themselves. The client resolves a name that
// the gateway does not list, unless the gateway must know which server it belongs to: some server has copies.
func (s *session) findTool(ctx context.Context, name string) (string, error) {
	g := s.gateway
	if qualified, ok := g.catalog.Last().ToolByName[name]; ok {
		return qualified, nil
	}
	if _, ok := g.catalog.Get().ToolByName[name]; !ok {
		g.awaitServers(ctx, g.mayHave(name))
	}
	l := g.catalog.Get()
	if qualified, ok := l.ToolByName[name]; ok {
		return qualified, nil
	}
	if _, withheld := l.WithheldName[listing.Owner{Server: "tool", Name: name}]; withheld {
		return "", g.unknown("tool", name)
	}
	if _, split := splitName(name); g.view.Rules() == nil && (split || g.opts.sharesAll() && s.questions.handlers.Load() == nil || len(name) > toolname.MaxAliasBytes) {
		return name, nil
	}
	o, err := g.findNamed(ctx, "tool", name)
	return o.Qualified(), err
}

// serverOf returns the server of a tool; empty for a name that only the client can resolve.
func serverOf(tool string) string {
	if server, _, ok := mcpvisor.SplitName(tool); ok {
		return server
	}
	server, _, _ := mcpvisor.SplitAlias(tool)
	return server
}

// progressParams are the params of notifications/progress.
type progressParams struct {
	ProgressToken json.RawMessage `json:"progressToken"`
	mcpvisor.Progress
}

// shortenResult shortens the text in the result of a tool to the bound, and lets its links lead to the server of the
// tool. The peer knows the tool as shown.
func (s *session) shortenResult(shown, tool string, result json.RawMessage) json.RawMessage {
	if resource.MayRefer(result) {
		server := serverOf(tool)
		if known, ok := s.gateway.client.Tool(tool); ok {
			server = known.Server
		}
		result = s.gateway.withReferences(server, result)
	}
	return s.gateway.results.Shorten(longresult.Cut{Owner: s.owner, Tool: tool, Shown: shown, Links: !s.noLinks.Load(), Limit: max(s.gateway.opts.settings.load().MaxResultBytes, 0)}, result)
}

// linkVersion is the first version with links to resources in results.
const linkVersion = "2025-06-18"

// speak sets what follows from the version of the session.
func (s *session) speak(version string) { s.noLinks.Store(version < linkVersion) }

// readResult answers resources/read for the whole text of a shortened result. It reports false for any
// other URI.
func (r *request) readResult() (result json.RawMessage, ok bool, err error) {
	p := r.params
	id, ok := strings.CutPrefix(p.uri, longresult.Scheme)
	if !ok {
		return nil, false, nil
	}
	text, tool, found := r.gateway.results.Get(r.session.owner, id)
	if !found || !r.gateway.offersTool(tool) {
		if slices.Contains(r.gateway.client.Servers(), longresult.Server) { // a server of that name
			return nil, false, nil
		}
		return nil, true, notFound(&jsonrpc.Error{Code: codeResourceNotFound, Message: "no result " + message.Quote(p.uri) + " is kept; call the tool again"}, p)
	}
	uri, _ := json.Marshal(p.uri)
	result = slices.Concat([]byte(`{"contents":[{"uri":`), uri, []byte(`,"mimeType":"text/plain","text":`), text, []byte(`}],"ttlMs":0,"cacheScope":"`+listing.CacheScope+`"}`))
	if p.modern() {
		result = message.Modern(result)
	}
	return result, true, nil
}
