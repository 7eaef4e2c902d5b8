package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/gateway/settings"
	"github.com/mcpvisor/mcpvisor/headerauth"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
	"github.com/mcpvisor/mcpvisor/oauth"
	"github.com/mcpvisor/mcpvisor/rules"
)

// entry is one server of the file while it is read. It belongs to the parser's
// goroutine.
type entry struct {
	p      *parser
	name   string // in the file
	line   int
	key    string // the key that is being read, as in "timeouts.call" or "args[1]"
	broken bool   // a problem costs the entry

	// What the keys say. finish moves it into spec.
	spec         mcpvisor.ServerSpec
	stdio        mcpvisor.Stdio
	http         mcpvisor.HTTP
	httpURL      string // "httpUrl"; wins over http.URL
	tls          mcpvisor.TLS
	oauth        oauth.Config
	oauthEnabled bool
	headerSource *headerauth.Source // of "headers_command"; nil without it
	enterprise   oauth.Enterprise
	commandArgs  []string          // of "command" as a list; nil of another one
	fileEnv      map[string]string // of "envFile" and "env_vars"
	addedHeaders map[string]string // of other hosts' keys
	tools        toolKeys
	setting      mcpvisor.ToolSetting // of the tool that is being read
	settingHides bool                 // the tool that is being read
	disabled     bool
	skipped      bool

	onDown *settings.OnDown // of the gateway; nil without it
	share  settings.Share   // of the gateway; empty without it

	nodeLabels map[string]string

	// Of "gateway" and "groups", which are read as entries without a server.
	strict         bool // unknown keys are errors
	gateway        *Gateway
	profile        *settings.Profile // that is being read
	serverPatterns []serverPattern
	group          *mcpvisor.Group // of "groups"; nil elsewhere
	rule           *rules.Rule     // of "rules"; nil elsewhere
	prefixAt       *hujson.Value   // the value of "names.prefix", in prefixText
	prefixText     *text

	start        json.RawMessage // of Server
	kind         string          // "type", as written
	kindValue    *hujson.Value   // the value of "type"; nil without it
	commandValue *hujson.Value   // the value of "command"; nil without it
	callValue    *hujson.Value   // the value of "timeouts.call" or "timeout"; nil without it
	misspelt     misspeltKey     // of "command" or "url"
}

// readEntry reads one server and adds it to the file, or reports why it cannot.
func (p *parser) readEntry(name string, m *hujson.ObjectMember) {
	e := &entry{p: p, name: name, line: p.text.line(&m.Name), fileEnv: map[string]string{}, addedHeaders: map[string]string{}, tools: toolKeys{approvals: map[string]*hujson.Value{}},
		spec: mcpvisor.ServerSpec{Name: p.names[name], Origin: p.origin(&m.Name), Policy: DefaultRetry, StartSupervised: true}}
	p.secrets = nil
	object, ok := m.Value.Value.(*hujson.Object)
	e.disabled, e.skipped = ok && isDisabled(object), p.skips(name)
	if e.disabled || e.skipped { // what it lacks is not a problem
		e.spec = mcpvisor.ServerSpec{Name: e.spec.Name, Origin: e.spec.Origin}
		e.add()
		return
	}
	e.warnDerivedName(&m.Name)
	if ok {
		e.readMembers(object, entryRows)
		e.finish(&m.Value)
		e.start = startOf(object)
	} else {
		e.failServer(&m.Value, "is not an object; write {\"command\": …} or {\"url\": …}")
	}
	if e.broken {
		e.spec = mcpvisor.ServerSpec{Name: e.spec.Name, Origin: e.spec.Origin}
		p.file.Unusable = append(p.file.Unusable, e.server())
		return
	}
	e.add()
}

// startOf returns the members of an entry that say what is started, as they are written.
func startOf(object *hujson.Object) json.RawMessage {
	start := map[string]json.RawMessage{}
	for name, m := range members(object) {
		if name == "args" || name == "socket" || slices.Contains(transportKeys, name) {
			start[name] = plainJSON(&m.Value)
		}
	}
	text, err := json.Marshal(start)
	if err != nil { // it was parsed
		return nil
	}
	return text
}

// isDisabled reports whether an entry says that it is not to be started. It is known
// before anything else is read, so that the user is not asked for inputs of it.
func isDisabled(object *hujson.Object) bool {
	for name, m := range members(object) {
		lit, ok := literal(&m.Value, 't')
		if enables := name == "enabled" || slices.Contains(enabledAliases, name); ok && (name == "disabled" && lit.Bool() || enables && !lit.Bool()) {
			return true
		}
	}
	return false
}

// add adds the server to the file.
func (e *entry) add() { e.p.file.Servers = append(e.p.file.Servers, e.server()) }

func (e *entry) server() Server {
	return Server{Spec: e.spec, Entry: e.name, Path: e.p.text.path, Line: e.line,
		Replaces: e.p.origins[e.name], Start: e.start, Disabled: e.disabled, Skipped: e.skipped, OnDown: e.onDown, NodeLabels: e.nodeLabels, Share: e.share}
}

// readMembers reads an object by the table of its keys, each key once.
func (e *entry) readMembers(object *hujson.Object, rows []row) {
	seen := map[string]bool{}
	for name, m := range members(object) {
		r := findRow(rows, name)
		prefix := "."
		if e.key == "" {
			prefix = ""
		}
		e.within(prefix+name, func() {
			switch {
			case seen[name]:
				e.fail(&m.Name, "%q is set twice; remove one of them", e.key)
			case r != nil:
				if _, null := literal(&m.Value, 'n'); !null { // null is the same as no key
					r.read(e, &m.Value)
				}
			case e.key == name && (slices.Contains(ignoredKeys, name) || e.refuseUnsupported(m)):
			default:
				e.warnUnknown(&m.Name, name, rows)
			}
		})
		seen[name] = true
	}
}

// within calls read while e.key has a suffix, so that problems name what is read.
func (e *entry) within(suffix string, read func()) {
	key := e.key
	e.key += suffix
	read()
	e.key = key
}

// warnUnknown warns of a key that the table does not have. The warning gives the
// closest name.
func (e *entry) warnUnknown(at *hujson.Value, name string, rows []row) {
	if e.strict {
		e.fail(at, "unknown key %q; %s", e.key, didYouMean(name, rowNames(rows), "use one of "+strings.Join(rowNames(rows), ", ")))
		return
	}
	e.warn(at, "unknown key %q is ignored; %s", e.key, didYouMean(name, rowNames(rows), "remove it"))
	if near := nearest.Names(name, rowNames(rows)); e.key == name && len(near) > 0 && slices.Contains(transportKeys, near[0]) {
		e.misspelt = misspeltKey{at, name, near[0], len(e.p.file.Problems) - 1}
	}
}

// transportKeys are the keys without which an entry is not a server.
var transportKeys = []string{"command", "url", "serverUrl", "httpUrl"}

// misspeltKey is an unknown key that probably stands for "command" or "url".
type misspeltKey struct {
	at         *hujson.Value // nil without such a key
	name, near string
	problem    int // the index of the warning about it
}

// failTransport reports an entry that lacks "command" or "url". A misspelt key replaces
// the hint, and its warning, because it is the reason.
func (e *entry) failTransport(at *hujson.Value, lacks, hint string) {
	m := e.misspelt
	if m.at == nil {
		e.failServer(at, "%s; %s", lacks, hint)
		return
	}
	e.p.file.Problems = slices.Delete(e.p.file.Problems, m.problem, m.problem+1)
	e.fail(m.at, "unknown key %q (did you mean %q?), so it %s", m.name, m.near, lacks)
}

// finish makes the spec of what the keys say, and checks it as a whole. at is
// the value of the entry.
func (e *entry) finish(at *hujson.Value) {
	e.http.URL = cmp.Or(e.httpURL, e.http.URL)
	typeAt := cmp.Or(e.kindValue, at)
	e.setHeaders(at)
	e.readSocketURL(typeAt)
	e.checkType(typeAt)
	e.setAuth(typeAt)
	e.setTransport(typeAt)
	e.setTools()
	e.checkCallTimeouts()
	e.spec.Secrets = e.p.secrets
	if e.broken {
		return
	}
	if e.spec.Exclusive && e.share == settings.ShareClient {
		e.fail(at, "\"share\": \"client\" starts a process for each client, and \"exclusive\" allows one; remove one of them")
		return
	}
	if err := e.spec.Validate(); err != nil {
		e.fail(at, "%s", keyTerms(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
}

// These are the values of "type" in lower case, without '-' and '_'.
var (
	programKinds  = []string{"stdio", "local"}
	endpointKinds = []string{"http", "streamablehttp", "remote", "sse", "ws", "websocket"}
)

// endpointHints say what is missing without "url", where that is not just an endpoint.
var endpointHints = map[string]string{"sse": "give the address of the event stream", "ws": "give the address, as in wss://host/path", "websocket": "give the address, as in wss://host/path"}

// plainKind returns a value of "type" in that form.
func plainKind(kind string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(kind))
}

// checkType compares "type" with the other keys. An entry that contradicts its
// type is not used as anything else.
func (e *entry) checkType(at *hujson.Value) {
	kind := plainKind(e.kind)
	need := func(value, key, hint string) {
		if value == "" && !e.broken {
			e.failTransport(at, fmt.Sprintf("has type %q and no %q", e.kind, key), hint)
		}
	}
	switch {
	case kind == "":
	case slices.Contains(programKinds, kind):
		need(e.stdio.Command, "command", "name the program to run")
	case slices.Contains(endpointKinds, kind):
		e.http.SSE = kind == "sse" // deprecated since 2025-03-26
		need(e.http.URL, "url", cmp.Or(endpointHints[kind], "give the endpoint"))
	default:
		e.fail(at, "type %q is unknown; use \"stdio\", \"http\", \"sse\" or \"ws\"", e.kind)
	}
}

// setTransport sets the spec's transport: a program, an endpoint, or a WebSocket.
func (e *entry) setTransport(at *hujson.Value) {
	hasCommand, hasURL := e.stdio.Command != "", e.http.URL != ""
	switch {
	case e.broken:
	case hasCommand && hasURL:
		e.failServer(at, "has both \"command\" and \"url\"; keep one of them")
	case hasCommand:
		if e.http.Auth != nil {
			e.warn(at, "%q is ignored, because it is for an endpoint and not for a program; put credentials into \"env\"", e.authKey())
		}
		e.refuseConnection(e.warn, at)
		e.splitCommand()
		e.stdio.Env = mergeEnv(e.fileEnv, e.stdio.Env)
		e.spec.Stdio = &e.stdio
	case hasURL && e.isWebSocket():
		e.setWebSocket(at)
	case hasURL:
		e.spec.HTTP = &e.http
	default:
		e.failTransport(at, `has neither "command" nor "url"`, "name the program to run, or the endpoint")
	}
}

// fail reports a problem that costs the entry.
func (e *entry) fail(v *hujson.Value, format string, args ...any) {
	e.broken = true
	e.p.addProblem(v, e.name, SeverityError, format, args...)
	if e.strict {
		e.p.file.Problems[len(e.p.file.Problems)-1].Key, _, _ = strings.Cut(e.key, ".")
	}
}

// failServer is fail for a message whose subject is the server.
func (e *entry) failServer(v *hujson.Value, format string, args ...any) {
	e.fail(v, subjectServer+format, append([]any{e.name}, args...)...)
}

// warn reports a problem that costs one key of the entry.
func (e *entry) warn(v *hujson.Value, format string, args ...any) {
	e.p.addProblem(v, e.name, SeverityWarning, format, args...)
}
