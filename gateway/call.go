package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/listing"
	"github.com/mcpvisor/mcpvisor/gateway/internal/longresult"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
	"github.com/mcpvisor/mcpvisor/internal/toolname"
)

// toolCall are the params of tools/call.
type toolCall struct {
	name      string
	arguments json.RawMessage
	meta      json.RawMessage
	of        callMeta
	version   string
	input     inputParams
	task      json.RawMessage // what the client wants of the task that it asks for, in 2025-11-25
	key       string          // the value of KeyMeta, if hasKey
	hasKey    bool
}

var (
	// toolCallNames and toolMetaNames are the exact names of the members that readToolCall reads, in
	// params and in _meta.
	toolCallNames = []string{"name", "arguments", "_meta", "inputResponses", "requestState", "task"}
	toolMetaNames = []string{"progressToken", KeyMeta, mcp.MetaKeyLogLevel, mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientCapabilities}
)

// membersSeen is the set of the listed members that have been read so far: bit i is for the i-th name of
// the list.
type membersSeen uint

// add refuses a listed member that an object has twice; see memberNames.check.
func (s *membersSeen) add(names []string, key string) error {
	at := slices.Index(names, key)
	if at < 0 {
		return nil
	}
	if *s&(1<<at) != 0 {
		return errTwice(key)
	}
	*s |= 1 << at
	return nil
}

// readToolCall reads the params of tools/call without building values of the arguments.
func readToolCall(raw json.RawMessage) (t toolCall, err error) {
	var seen, seenMeta membersSeen
	err = jsonscan.EachMember(raw, func(key string, value []byte) (err error) {
		if err := seen.add(toolCallNames, key); err != nil {
			return err
		}
		switch key {
		case "name":
			t.name, err = jsonscan.ReadString(value)
		case "arguments":
			t.arguments = value
		case "inputResponses":
			t.input.next.InputResponses = value
		case "requestState":
			t.input.next.RequestState = value
		case "task":
			if value[0] == '{' {
				t.task = value
			}
		case "_meta":
			t.meta = value
			err = jsonscan.EachMember(value, func(key string, value []byte) (err error) {
				if err := seenMeta.add(toolMetaNames, key); err != nil {
					return err
				}
				switch key {
				case "progressToken":
					t.of.progressToken = value
				case KeyMeta:
					t.hasKey = true
					t.key, err = jsonscan.ReadString(value)
				case mcp.MetaKeyLogLevel:
					t.of.logLevel, err = jsonscan.ReadString(value)
				case mcp.MetaKeyProtocolVersion:
					t.version, err = jsonscan.ReadString(value)
				case mcp.MetaKeyClientCapabilities:
					t.input.declared, t.input.tasks = capability.OfRequest(value), capability.HasTasksExtension(value)
				}
				return err
			})
		}
		return err
	})
	switch {
	case err != nil:
		return t, message.InvalidParams("params of tools/call cannot be read: " + err.Error())
	case t.name == "":
		return t, message.InvalidParams("params of tools/call have no name of a tool")
	case len(t.arguments) > 0 && t.arguments[0] != '{' && string(t.arguments) != "null":
		return t, message.InvalidParams("the arguments in params of tools/call are not an object")
	case !t.input.valid():
		return t, errInputResponses
	}
	t.name = strings.Clone(t.name) // otherwise it would keep the memory of the arguments
	return t, checkVersion(t.version)
}

// callTool answers tools/call (MCP, server, tools). Arguments that the tool does not take are an
// error of the tool, which the model can correct; a request that is not one of tools/call, and
// an unknown tool, are JSON-RPC errors (there: error handling).
func (r *request) callTool() (json.RawMessage, error) {
	t, err := readToolCall(r.Params)
	if err != nil {
		return nil, err
	}
	modern := t.version >= modernVersion
	r.session.noteVersion(modern)
	if t.hasKey { // the handlers of the client answer: the call may outlive this one
		t.input = inputParams{}
	}
	answerTo := func(err error) (json.RawMessage, error) {
		if wire, refused := err.(*jsonrpc.Error); refused { // by beginTaskCall, or because there is no copy for it
			return nil, wire
		}
		if isUnknown(err) {
			return nil, r.gateway.unknown("tool", t.name)
		}
		if errors.Is(err, mcpvisor.ErrRPC) {
			return nil, r.session.protocolError(t.name, err)
		}
		return message.Result(r.gateway.client.ErrorForModel(t.name, err), modern)
	}
	checkArguments := func(tool string) error {
		if r.exchange.http == nil {
			return nil
		}
		return r.exchange.http.checkArguments(tool, modern, r.Params)
	}
	if err := checkArguments(cmp.Or(r.gateway.catalog.Last().ToolByName[t.name], t.name)); err != nil {
		return nil, err
	}
	if result, held, err := r.resumeHeld(modern, &t.input, t.of, answerTo); held {
		return result, err
	}
	tool, err := r.session.findTool(r.ctx, t.name)
	if err != nil {
		return nil, err
	}
	server := serverOf(tool)
	return r.perform(&upstreamRequest{
		server: server, meta: t.meta, of: t.of, modern: modern, input: t.input,
		send: func(ctx context.Context, opts ...facade.CallOption) (result json.RawMessage, err error) {
			tasks, opts, err := r.session.beginTaskCall(&t, tool, opts)
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
				result, err = client.CallToolRaw(ctx, tool, t.arguments, opts...)
				return err
			})
			if err != nil {
				return nil, err
			}
			return r.session.shortenResult(t.name, tool, tasks.result(result)), nil
		},
		answerTo: answerTo, offered: func() bool { return r.gateway.offersTool(tool) },
	})
}

// offersTool reports whether the client may still use what a call of the tool has made: a reload may have
// hidden the tool or its server.
func (g *gateway) offersTool(tool string) bool {
	rules := g.view.Rules()
	if known, ok := g.client.Tool(tool); ok {
		return rules.OffersServer(known.Server) && rules.OffersTool(&known)
	}
	server, own, _ := mcpvisor.SplitName(tool) // its server has withdrawn it
	return rules == nil || rules.OffersServer(server) && rules.OffersName(server, own)
}

// findTool returns the name by which the client calls a tool: its qualified name, if the gateway
// lists the tool under that name. Qualified names and aliases stand for themselves.
func (s *session) findTool(ctx context.Context, name string) (string, error) {
	if qualified, ok := s.gateway.catalog.Last().ToolByName[name]; ok {
		return qualified, nil
	}
	if _, ok := s.gateway.catalog.Get().ToolByName[name]; !ok {
		s.gateway.awaitServers(ctx, s.gateway.mayHave(name))
	}
	l := s.gateway.catalog.Get()
	if qualified, ok := l.ToolByName[name]; ok {
		return qualified, nil
	}
	if _, withheld := l.WithheldName[listing.Owner{Server: "tool", Name: name}]; withheld {
		return "", s.gateway.unknown("tool", name)
	}
	if s.gateway.profile() == nil {
		return s.qualifiedOf(name)
	}
	o, err := s.gateway.findOffered(ctx, "tool", name, s.gateway.offeredTool)
	return o.Qualified(), err
}

// qualifiedOf resolves a name that the gateway does not list. The client resolves it itself, so it is
// returned as it is. Only if some server has copies must the gateway know which server the name belongs
// to.
func (s *session) qualifiedOf(name string) (string, error) {
	if s.gateway.opts.sharesAll() && s.questions.handlers.Load() == nil || len(name) > toolname.MaxAliasBytes {
		return name, nil
	}
	if _, _, ok := mcpvisor.SplitName(name); ok {
		return name, nil
	}
	if _, _, ok := mcpvisor.SplitAlias(name); ok {
		return name, nil
	}
	var found []string
	for known := range s.gateway.client.Catalogs() {
		for i := range known.Tools {
			if t := &known.Tools[i]; mcpvisor.Alias(t.Server, t.OriginalName) == name {
				found = append(found, mcpvisor.Qualify(t.Server, t.OriginalName))
			}
		}
	}
	if len(found) != 1 {
		return "", s.gateway.unknown("tool", name)
	}
	return found[0], nil
}

// serverOf returns the server of a tool; empty for a name that only the client can resolve.
func serverOf(tool string) string {
	if server, _, ok := mcpvisor.SplitName(tool); ok {
		return server
	}
	server, _, _ := mcpvisor.SplitAlias(tool)
	return server
}

// callMeta holds the members of _meta that ask for messages about a request.
type callMeta struct {
	progressToken json.RawMessage
	logLevel      string // since 2026-07-28; before, the session has one
}

func (p *params) callMeta() callMeta { return callMeta{p.Meta.ProgressToken, p.Meta.LogLevel} }

// callOptions returns the options of a request to a server. They carry its _meta and its handlers for
// questions. They pass its log messages on to its client only, and its progress if the request has a
// token (MCP, basic, utilities, progress). tell calls a function with the receiver of these reports.
func (r *request) callOptions(u *upstreamRequest, tell func(func(roundtrip.Told))) ([]facade.CallOption, error) {
	if u.modern {
		r.session.introduce(u.meta, mcp.MetaKeyClientInfo, modernVersion)
	}
	opts := r.session.named(nil)
	if h := r.session.questions.handlers.Load(); h != nil {
		r.session.questions.begin(r, u.server)
		opts = append(opts, facade.WithCallHandlers(h))
	}
	if u.modern {
		if u.input.declared != 0 {
			opts = append(opts, facade.WithCallHandlers(r.session.tripClient(u.input.declared).Handlers()))
		}
		if u.input.relays() {
			opts = append(opts, facade.WithRelay(u.input.next))
		}
	}
	if len(u.meta) > 0 && u.meta[0] == '{' {
		opts = append(opts, facade.WithMeta(u.meta))
	}
	level := r.session.notify.LevelOfLogs()
	if u.modern {
		level = notices.NoLogs
		if u.of.logLevel != "" {
			if level = slices.Index(notices.LogLevels, u.of.logLevel); level < 0 {
				return nil, message.InvalidParams("unknown log level " + message.Quote(u.of.logLevel))
			}
		}
	}
	if level < notices.NoLogs {
		opts = append(opts, facade.WithLogMessages(notices.LogLevels[level], func(m mcpvisor.LogMessage) {
			if slices.Index(notices.LogLevels, m.Level) >= level { // another session may have set a lower level
				tell(func(t roundtrip.Told) { t.ReportLog(m) })
			}
		}))
	}
	if !isProgressToken(u.of.progressToken) {
		return opts, nil
	}
	r.token = u.of.progressToken
	return append(opts, facade.WithProgress(func(p mcpvisor.Progress) { tell(func(t roundtrip.Told) { t.ReportProgress(p) }) })), nil
}

// progressParams are the params of notifications/progress.
type progressParams struct {
	ProgressToken json.RawMessage `json:"progressToken"`
	mcpvisor.Progress
}

// isProgressToken reports whether a value may be a token: a string or a number.
func isProgressToken(token json.RawMessage) bool {
	return len(token) > 0 && (token[0] == '"' || token[0] == '-' || token[0] >= '0' && token[0] <= '9')
}

// shortenResult shortens the text in the result of a tool to the bound. The peer knows the tool as shown.
func (s *session) shortenResult(shown, tool string, result json.RawMessage) json.RawMessage {
	return s.gateway.results.Shorten(longresult.Cut{Owner: s.owner, Tool: tool, Shown: shown, Links: !s.noLinks.Load(), Limit: max(s.gateway.opts.settings.load().MaxResultBytes, 0)}, result)
}

// linkVersion is the first version with links to resources in results.
const linkVersion = "2025-06-18"

// speak sets what follows from the version of the session.
func (s *session) speak(version string) { s.noLinks.Store(version < linkVersion) }

// readResult answers resources/read for the whole text of a shortened result. It reports false for any
// other URI.
func (s *session) readResult(p *params) (result json.RawMessage, ok bool, err error) {
	id, ok := strings.CutPrefix(p.URI, longresult.Scheme)
	if !ok {
		return nil, false, nil
	}
	text, tool, found := s.gateway.results.Get(s.owner, id)
	if !found || !s.gateway.offersTool(tool) {
		if slices.Contains(s.gateway.client.Servers(), longresult.Server) { // a server of that name
			return nil, false, nil
		}
		return nil, true, notFound(&jsonrpc.Error{Code: codeResourceNotFound, Message: "no result " + message.Quote(p.URI) + " is kept; call the tool again"}, p)
	}
	uri, _ := json.Marshal(p.URI)
	result = slices.Concat([]byte(`{"contents":[{"uri":`), uri, []byte(`,"mimeType":"text/plain","text":`), text, []byte(`}],"ttlMs":0,"cacheScope":"`+listing.CacheScope+`"}`))
	if p.modern() {
		result = message.Modern(result)
	}
	return result, true, nil
}
