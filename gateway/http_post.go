package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/clients"
	"github.com/mcpvisor/mcpvisor/gateway/internal/httpwire"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/gateway/internal/notices"
	"github.com/mcpvisor/mcpvisor/gateway/internal/roundtrip"
	"github.com/mcpvisor/mcpvisor/gateway/internal/sessionid"
	"github.com/mcpvisor/mcpvisor/internal/headerparams"
	"github.com/mcpvisor/mcpvisor/internal/waitqueue"
)

// httpExchange is one HTTP request and its answer.
type httpExchange struct {
	server    *Server
	gateway   *gateway // of the profile of the client
	principal *principal
	owner     string          // the principal with its profile
	expiry    time.Time       // of the token; zero if it has none
	life      context.Context //nolint:containedctx // of the token: it ends when the token is revoked; nil: never
	w         http.ResponseWriter
	r         *http.Request
	wire      *httpwire.Exchange // reads r, and writes to w
}

// manyRequests says that a principal has too many requests in flight.
const manyRequests = "too many requests are in flight"

// fail answers with a JSON-RPC error and an HTTP status.
func (x *httpExchange) fail(status int, id jsonrpc.ID, e *jsonrpc.Error) {
	x.wire.JSON(status, message.Encode(&jsonrpc.Response{ID: id, Error: e}))
}

// busy answers a request whose principal has reached a limit.
func (x *httpExchange) busy(what string) {
	x.refuse(clients.RefusedLimit)
	x.w.Header().Set("Retry-After", "1")
	x.fail(http.StatusTooManyRequests, jsonrpc.ID{}, message.Busy(what))
}

// refuse counts a refused request.
func (x *httpExchange) refuse(why clients.Refusal) { x.server.gateway.opts.clients.Refuse(why) }

// infoOf describes a client over HTTP, without what the client says of itself.
func (x *httpExchange) infoOf(protocol string) clients.Info {
	return clients.Info{Protocol: protocol, Principal: x.principal.name, Profile: x.gateway.opts.profile, Transport: "http"}
}

// post answers POST (MCP, basic, transports, Streamable HTTP).
func (x *httpExchange) post() {
	if why := unsupported(x.r.Header); why != "" {
		x.refuse(clients.RefusedMalformed)
		http.Error(x.w, why, http.StatusUnsupportedMediaType)
		return
	}
	body, reserved, ok := x.readBody()
	defer func() { x.principal.reserve(0, -reserved) }()
	if !ok {
		return
	}
	messages, batch, wrong := message.Read(body)
	if wrong != nil {
		x.refuse(clients.RefusedMalformed)
		x.fail(http.StatusBadRequest, jsonrpc.ID{}, wrong)
		return
	}
	all := make([]received, len(messages))
	for i, m := range messages {
		r, ok := m.(*jsonrpc.Request)
		if !ok {
			all[i] = received{params: new(params), answer: m.(*jsonrpc.Response)} //nolint:forcetypeassert // message.Read returns one of the two
			continue
		}
		all[i] = received{id: r.ID, request: r}
		if batch || !r.ID.IsValid() {
			all[i].params = readNames(r.Params)
		} else {
			all[i].params = readParams(x.r.Context(), r.Method, r.Params)
		}
		if e := all[i].checkNames(x.r.Header, false); e != nil {
			x.refuse(clients.RefusedMalformed)
			x.fail(http.StatusBadRequest, r.ID, e)
			return
		}
	}
	first, header := all[0], x.r.Header.Get(versionHeader)
	switch {
	case !batch && (header >= modernVersion || first.params.modern()):
		x.postModern(first, header)
	case header != "" && !slices.Contains(legacyVersions, header):
		x.fail(http.StatusBadRequest, first.id, checkVersion(header).(*jsonrpc.Error))
	case !batch && first.id.IsValid() && first.request.Method == "initialize":
		x.initialize(first)
	default:
		x.postLegacy(all, batch)
	}
}

// received is one message of a POST: a request or notification with its params, or an answer to a question.
type received struct {
	id      jsonrpc.ID       // of a request; not valid otherwise
	request *jsonrpc.Request // nil: an answer
	params  *params
	answer  *jsonrpc.Response
}

// unsupported says why a body cannot be read: others could read it differently. Empty: it can.
func unsupported(h http.Header) string {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch encoding := h.Get("Content-Encoding"); {
	case err != nil || kind != "application/json":
		return "the Content-Type must be application/json"
	case params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8"):
		return "the charset of the body must be utf-8"
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return "the body must not be compressed; send it without Content-Encoding"
	}
	return ""
}

// readBody reads the body. If it reports false, it has answered the request. The caller gives back the
// reserved bytes.
func (x *httpExchange) readBody() (body []byte, reserved int, ok bool) {
	body, reserved, err := x.wire.ReadBody(x.r, func(bytes int) bool { return x.principal.reserve(0, bytes) })
	var wrong *httpwire.BodyError
	switch {
	case errors.As(err, &wrong):
		x.refuse(clients.RefusedMalformed)
		http.Error(x.w, wrong.Text, wrong.Status)
	case err != nil:
		x.busy(err.Error())
	}
	return body, reserved, err == nil
}

// initialize answers the first request of a session. The id of the session carries all that later
// requests need.
func (x *httpExchange) initialize(m received) {
	s, r, p := x.server, m.request, m.params
	version := sessionVersion(p.protocolVersion)
	bits := sessionBits(version, p.sessionCapabilities)
	text, err := message.Result(x.gateway.initializeResult(version, bits), false)
	if err := cmp.Or(p.err, err); err != nil {
		x.fail(http.StatusOK, r.ID, err.(*jsonrpc.Error))
		return
	}
	id := sessionid.New(byte(slices.Index(legacyVersions, version)), bits, x.owner, time.Now().Add(s.limits.SessionLifetime))
	info := x.infoOf(version)
	info.Name, info.Version = readClientInfo(p.sessionClient)
	id.Client, id.ClientVersion = info.Name, info.Version
	peer := s.gateway.opts.clients.Open(keyOf(id.Nonce), info)
	peer.Begin(false)
	defer peer.Done(clients.OutcomeAnswered)
	x.w.Header().Set(sessionHeader, sessionid.Seal(s.gateway.opts.key, id))
	x.wire.JSON(http.StatusOK, message.Encode(&jsonrpc.Response{ID: r.ID, Result: text}))
}

// postLegacy answers the messages of a session before 2026-07-28.
func (x *httpExchange) postLegacy(messages []received, batch bool) {
	if x.r.Header.Get(sessionHeader) == "" {
		x.fail(http.StatusBadRequest, messages[0].id, message.InvalidRequest("the header %s is missing; begin with initialize", sessionHeader))
		return
	}
	hs := x.openSession(messages[0].id)
	if hs == nil {
		return
	}
	defer x.server.closeSession(hs)
	if batch && hs.version != "2025-03-26" {
		x.fail(http.StatusBadRequest, jsonrpc.ID{}, message.InvalidRequest("version %s has no batches", hs.version))
		return
	}
	if batch && headerparams.In(x.r.Header) {
		x.fail(http.StatusBadRequest, jsonrpc.ID{}, mismatch("a header repeats an argument, and cannot do so for a batch; send the request alone"))
		return
	}
	// No message takes effect before all of them are checked.
	var requests []received
	for _, m := range messages {
		switch {
		case !m.id.IsValid():
			continue
		case m.request.Method == "initialize":
			x.fail(http.StatusBadRequest, m.request.ID, message.InvalidRequest("initialize must be alone"))
			return
		case m.params.modern(): // in a batch
			x.fail(http.StatusBadRequest, m.request.ID, message.InvalidRequest("version %s has no sessions and no batches; send the request alone", modernVersion))
			return
		}
		requests = append(requests, m)
	}
	if !x.principal.reserve(len(requests), 0) {
		x.busy(manyRequests)
		return
	}
	defer x.principal.reserve(-len(requests), 0)
	for _, m := range messages {
		switch r := m.request; {
		case r == nil:
			hs.session.questions.receiveAnswer(m.answer)
		case !r.ID.IsValid():
			hs.session.receiveNotification(r, m.params)
		case r.Method == "resources/subscribe" || r.Method == "logging/setLevel":
			hs.session.follow() // before it takes effect
		}
	}
	if !batch && len(requests) > 0 && requests[0].request.Method == "tasks/result" { // its versions have no batches
		defer x.endWithToken()()
	}
	x.answer(hs.session, requests)
}

// sessionMethods are the methods that 2026-07-28 no longer has.
var sessionMethods = []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/result", "tasks/list"}

// postModern answers a message of 2026-07-28, which has no sessions.
func (x *httpExchange) postModern(m received, header string) {
	if !m.id.IsValid() { // without effect: the end of its connection cancels a request
		x.wire.Accept()
		return
	}
	r := m.request
	if e := m.checkHeaders(x.r.Header, header); e != nil {
		x.fail(http.StatusBadRequest, r.ID, e)
		return
	}
	if _, known := methods[r.Method]; !known || slices.Contains(sessionMethods, r.Method) {
		x.fail(http.StatusNotFound, r.ID, message.MethodNotFound(r.Method))
		return
	}
	s := newSession(waitqueue.WithClient(x.principal.inTurn(x.server.ctx), x.principal), x.gateway)
	s.owner, s.account = x.owner, x.principal.account
	s.peer = x.openModern(m.params.client)
	s.introduced.Store(true)
	// A held call outlives its request.
	s.holdContext, s.holdOwner = x.server.ctx, roundtrip.Owner{Principal: x.principal.name}
	if x.principal.name != "" {
		s.tenancy.enter = func() *tenant { return x.server.enterTenant(x, s.peer) }
		s.tenancy.leave = func(t *tenant) { x.server.leaveTenant(x.owner, t) }
	}
	defer s.end()
	if r.Method == "subscriptions/listen" {
		defer x.endWithToken()()
	}
	if !x.principal.reserve(1, 0) {
		x.busy(manyRequests)
		return
	}
	defer x.principal.reserve(-1, 0)
	x.answer(s, []received{m})
}

// openModern returns the client of a request of 2026-07-28, which belongs to no session. Requests with
// the same principal, profile, name and version are of one client.
func (x *httpExchange) openModern(client json.RawMessage) *clients.Client {
	info := x.infoOf(modernVersion)
	info.Name, info.Version = readClientInfo(client)
	key := "client " + strings.Join([]string{info.Principal, info.Profile, message.Shorten(info.Name), message.Shorten(info.Version)}, "\x00")
	return x.server.gateway.opts.clients.Open(key, info)
}

func mismatch(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// checkHeaders compares the headers of 2026-07-28 with the body (MCP, basic, transports, Streamable
// HTTP, standard headers): proxies between client and server decide by the headers.
func (m *received) checkHeaders(h http.Header, header string) *jsonrpc.Error {
	version, declared := m.params.version, m.params.clientCapabilities
	switch {
	case header == "":
		return mismatch("the header %s is missing", versionHeader)
	case version == "":
		return message.InvalidParams("the params have no _meta[" + message.Quote(mcp.MetaKeyProtocolVersion) + "]")
	case header != version:
		return mismatch("the header %s is %s, and _meta says %s", versionHeader, message.Quote(header), message.Quote(version))
	case header != modernVersion:
		return checkVersion(header).(*jsonrpc.Error)
	case len(declared) == 0 || declared[0] != '{':
		return message.InvalidParams("the params have no _meta[" + message.Quote(mcp.MetaKeyClientCapabilities) + "]")
	}
	return m.checkNames(h, true)
}

// checkNames compares the method and the name of a request with their headers. Before 2026-07-28 they may be absent, and
// must not lie.
func (m *received) checkNames(h http.Header, required bool) *jsonrpc.Error {
	r := m.request
	if method := h.Get(methodHeader); method != r.Method && (required || len(h[methodHeader]) > 0) {
		return mismatch("the header %s is %s, and the method is %s", methodHeader, message.Quote(method), message.Quote(r.Method))
	}
	var member, name string
	switch r.Method {
	case "tools/call", "prompts/get":
		member, name = "name", m.params.name
	case "resources/read":
		member, name = "uri", m.params.uri
	case "tasks/get", "tasks/update", "tasks/cancel":
		member, name = "taskId", m.params.taskID
	default:
		return nil
	}
	if !required && len(h[nameHeader]) == 0 {
		return nil
	}
	if said, ok := headerparams.Decode(h.Get(nameHeader)); !ok || said != name || said == "" {
		return mismatch("the header %s is %s, and the %s is %s", nameHeader, message.Quote(said), member, message.Quote(name))
	}
	return nil
}

// checkArguments compares the headers that repeat arguments of a call of a tool, by whichever of its names the
// client calls it. Before 2026-07-28 there need not be any.
func (x *httpExchange) checkArguments(tool string, modern bool, params json.RawMessage) error {
	if !modern && !headerparams.In(x.r.Header) {
		return nil
	}
	known, ok := x.gateway.client.Tool(tool)
	if !ok { // it is checked again when its server is up
		return nil
	}
	table := x.server.gateway.marksOf(&known)
	if member := table.Ambiguous(known.OriginalName, params); member != "" {
		return mismatch("the member %s is there twice, or under a name that differs only in case, and a header repeats it", message.Quote(member))
	}
	if header := table.Mismatch(x.r.Header, known.OriginalName, params); header != "" {
		return mismatch("the header %s does not repeat its argument of %s", header, message.Quote(known.OriginalName))
	}
	return nil
}

// marksOf returns which arguments of a tool its calls repeat in headers. They are read once for each definition of it.
func (g *gateway) marksOf(t *mcpvisor.Tool) *headerparams.Table {
	key := weak.Make(t.Definition)
	if made, ok := g.marks.Load(key); ok {
		return made.(*headerparams.Table) //nolint:forcetypeassert // nothing else is in the map
	}
	table := new(headerparams.Table)
	table.Replace([]mcpvisor.Tool{*t})
	if _, other := g.marks.LoadOrStore(key, table); !other {
		marks := g.marks // not g: it has the definition, which could not be collected then
		runtime.AddCleanup(t.Definition, func(key weak.Pointer[mcp.Tool]) { marks.Delete(key) }, key)
	}
	return table
}

// answer answers the requests of one POST, which the caller has reserved: with JSON, or with a stream if
// another message comes before the answer. If the peer closes the connection, its requests are canceled.
func (x *httpExchange) answer(s *session, requests []received) {
	if len(requests) == 0 {
		x.wire.Accept()
		return
	}
	var notify *notifier
	if slices.ContainsFunc(requests, func(m received) bool { return m.request.Method == "subscriptions/listen" }) {
		notify = notices.New[*subscription]()
		notify.Account = s.account
		s.gateway.hub.join(notify, notify.EndListeners)
		defer s.gateway.hub.leave(notify)
	}
	e := &exchange{session: s, http: x, asks: httpwire.AcceptsStream(x.r), out: newOutbox(&s.gateway.opts.limits, notify, x.principal)}
	defer e.out.close()
	made := make([]*request, len(requests))
	for i, m := range requests {
		made[i] = newRequest(e, m.request, m.params)
	}
	admitted := 0
	for _, one := range made {
		if err := s.requests.admit(x.r.Context(), one); err != nil {
			break
		}
		admitted++
	}
	gone := context.AfterFunc(x.r.Context(), func() {
		e.out.broken.Store(true)
		for _, r := range made {
			r.abandon()
		}
	})
	defer gone()
	x.pass(e, made, admitted)
}

// pass writes the messages of the outbox until all requests have answers. The first n of made were
// admitted.
func (x *httpExchange) pass(e *exchange, made []*request, n int) {
	s, out, batch := e.session, e.out, len(made) > 1
	keepAlive := time.NewTicker(x.server.limits.KeepAlive)
	defer keepAlive.Stop()
	failed := false // the peer no longer reads
	var answers []message.Encoded
	kept, passed := 0, 0 // bytes in answers; number of answers so far
	room := 0            // of these answers
	defer func() { out.room.Return(room) }()
	pass := func(m jsonrpc.Message, id jsonrpc.ID) {
		passed++
		switch {
		case failed:
		case x.wire.IsStream() || batch && e.asks:
			failed = !x.wire.Event(m, "")
		case batch:
			one := message.Encode(m)
			if kept > 0 && kept+one.Len() > s.gateway.opts.limits.MaxUnreadBytes {
				one = message.Encode(&jsonrpc.Response{ID: id, Error: errLongBatch})
			}
			kept += one.Len()
			answers = append(answers, one)
		default:
			failed = !x.wire.JSON(statusOf(m), message.Encode(m))
		}
	}
	sessionEnded := false // the rest of the outbox is still written
	for passed+int(out.dropped.Load()) < n {
		m, ended := out.next()
		if m == nil && sessionEnded {
			break
		}
		switch {
		case m == nil:
			select {
			case <-out.wake:
			case <-keepAlive.C:
				if e.asks && !failed {
					failed = !x.wire.KeepAlive()
				}
			case <-s.ctx.Done():
				sessionEnded = true
			}
		case ended != nil:
			ended.beginWriting()
			if pass(m, ended.ID); answers != nil {
				room, ended.room = room+ended.room, 0
			}
			ended.end(!failed)
		case e.asks && !failed:
			failed = !x.wire.Event(m, "")
		}
	}
	for x.wire.IsStream() && !failed { // a canceled request has no answer, but its question is withdrawn
		m, _ := out.next()
		if m == nil {
			break
		}
		failed = !x.wire.Event(m, "")
	}
	if s.ctx.Err() != nil {
		for i, r := range made {
			if !r.writing && !r.canceled.Load() && r.Method != "subscriptions/listen" { // the client listens again
				pass(r.giveUp(i < n), r.ID)
			}
		}
	}
	switch {
	case len(answers) > 0:
		x.wire.Batch(answers)
	case x.wire.IsStream() || passed > 0:
	case errors.Is(context.Cause(x.r.Context()), errTokenEnded):
		http.Error(x.w, errTokenEnded.Error(), http.StatusUnauthorized)
	case s.ctx.Err() != nil:
		http.Error(x.w, errEndedEarly, http.StatusServiceUnavailable)
	default: // the peer has canceled them
		x.wire.Accept()
	}
}

// errLongBatch is the error of a request in a batch whose answers exceed MaxUnreadBytes together.
var errLongBatch = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request was carried out, and its answer does not fit beside the others of the batch; send such requests one by one, or accept an event stream"}

// errManyUnread is the answer to a request of a principal that has too many bytes of answers unread.
var errManyUnread = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the request was carried out, and its answer does not fit beside those that its principal has not read; read them first, or let the gateway raise HTTPLimits.MaxBytes"}

// statusOf returns the HTTP status of an answer. It is not 200 for some errors about the request as a
// whole.
func statusOf(m jsonrpc.Message) int {
	if answer, ok := m.(*jsonrpc.Response); ok {
		var wire *jsonrpc.Error
		if errors.As(answer.Error, &wire) && (wire.Code == mcp.CodeMissingRequiredClientCapabilities || wire.Code == mcp.CodeHeaderMismatch) {
			return http.StatusBadRequest
		}
	}
	return http.StatusOK
}
