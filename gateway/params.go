package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpvisor/mcpvisor/facade/relay"
	"github.com/mcpvisor/mcpvisor/gateway/internal/capability"
	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
	"github.com/mcpvisor/mcpvisor/internal/jsonbound"
	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// params has the params of a request. They are read once, by readParams.
type params struct {
	err   error // why they cannot be read; what could be read is there nevertheless
	names bool  // only names are read; see readNames

	// Of _meta.
	meta               json.RawMessage // as a whole; nil unless it is an object
	version            string          // each request since 2026-07-28 names its version
	progressToken      json.RawMessage
	logLevel           string // since 2026-07-28; before, the session has one
	clientCapabilities json.RawMessage
	client             json.RawMessage
	key                string // the value of KeyMeta, if hasKey
	hasKey             bool

	// Of initialize.
	protocolVersion                    string
	sessionCapabilities, sessionClient json.RawMessage

	name, uri, taskID, cursor, level string
	arguments                        json.RawMessage
	promptArguments                  map[string]string
	task                             json.RawMessage // what the client wants of the task that it asks for, in 2025-11-25
	ref                              completionRef
	argument                         mcp.CompleteParamsArgument
	context                          mcp.CompleteContext
	notifications                    *subscribedNotifications
	requestID                        any

	// About input, since 2026-07-28. declared and tasks are what the client can be asked for, as bits of package
	// capability, and whether it declares the extension for tasks.
	next     relay.Continuation
	declared uint16
	tasks    bool
}

// modern reports whether the request is of version 2026-07-28 or later.
func (p *params) modern() bool { return p.version >= modernVersion }

// memberNames are the members that are read of an object.
type memberNames []string

// The members that are read: of the params of tools/call, of those of all other methods, and of the objects in them. The
// params of tools/call may also have members of any other name.
var (
	toolCallNames = memberNames{"name", "arguments", "_meta", "inputResponses", "requestState", "task"}
	paramNames    = memberNames{"_meta", "protocolVersion", "capabilities", "clientInfo", "cursor", "name", "arguments", "uri", "taskId", "level", "requestId", "inputResponses", "requestState", "ref", "argument", "context", "notifications"}
	nameNames     = memberNames{"_meta", "name", "uri", "taskId"}
	metaNames     = memberNames{mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientCapabilities, mcp.MetaKeyClientInfo, mcp.MetaKeyLogLevel, "progressToken"}
	toolMetaNames = append(slices.Clone(metaNames), KeyMeta)

	refNames           = memberNames{"type", "name", "uri"}
	argumentNames      = memberNames{"name", "value"}
	contextNames       = memberNames{"arguments"}
	notificationsNames = memberNames{"toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds"}
)

// each calls read for each listed member of an object. A member that is there twice is an error: of two readers, such as a
// proxy that decides by the headers of the request, each may take another value. Unless exact is set, so is a name that
// differs only in case, which encoding/json accepts. The first error counts, and the other members are read.
func (names memberNames) each(object []byte, exact bool, read func(key string, value []byte) error) (err error) {
	var seen uint
	wrong := jsonscan.EachMember(object, func(key string, value []byte) error {
		var one error
		at := slices.Index(names, key)
		switch {
		case at >= 0 && seen&(1<<at) != 0:
			one = errors.New("the member " + message.Quote(key) + " is there twice")
		case at >= 0:
			seen |= 1 << at
			one = read(key, value)
		case !exact:
			if at = slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, key) }); at >= 0 {
				one = errors.New("the member " + message.Quote(key) + " must be written " + message.Quote(names[at]))
			}
		}
		err = cmp.Or(err, one)
		return nil
	})
	return cmp.Or(err, wrong)
}

// maxParamsValues bounds the JSON values in the params of a request. Those of tools/call are not bounded
// so, as their arguments are passed on undecoded.
const maxParamsValues = 10_000

// readParams reads the params of a request, which may be absent. The result shares the memory of raw.
func readParams(ctx context.Context, method string, raw json.RawMessage) *params {
	p, tool, what := new(params), method == "tools/call", "params"
	names := paramNames
	if tool {
		names, what = toolCallNames, "params of tools/call"
	} else if _, err := jsonbound.Check(ctx, raw, jsonbound.Limits{Elements: maxParamsValues}); err != nil {
		p.err = message.InvalidParams("params have " + err.Error())
	}
	if len(raw) > 0 && string(raw) != "null" {
		err := names.each(raw, tool, func(key string, value []byte) error { return p.read(key, value, tool) })
		if err != nil && p.err == nil {
			p.err = message.InvalidParams(what + " cannot be read: " + err.Error())
		}
	}
	badInput := len(p.next.InputResponses) > 0 && p.next.InputResponses[0] != '{'
	switch {
	case p.err != nil:
	case tool && p.name == "":
		p.err = message.InvalidParams("params of tools/call have no name of a tool")
	case tool && len(p.arguments) > 0 && p.arguments[0] != '{' && string(p.arguments) != "null":
		p.err = message.InvalidParams("the arguments in params of tools/call are not an object")
	case badInput && (tool || p.modern() && slices.Contains(inputMethods, method)):
		p.err = errInputResponses
	}
	if !p.modern() || p.hasKey { // with a key the handlers of the facade.Client answer: the call may outlive this one
		p.next = relay.Continuation{}
	} else {
		p.declared, p.tasks = capability.OfRequest(p.clientCapabilities), capability.HasTasksExtension(p.clientCapabilities)
	}
	return p
}

// readNames reads the version and the target of a message that is not admitted yet, and nothing else. readParams reads the
// rest when it is admitted: a batch has many messages, and decoded values are larger than their text.
func readNames(raw json.RawMessage) *params {
	p := &params{names: true}
	if len(raw) > 0 && string(raw) != "null" {
		p.err = nameNames.each(raw, true, func(key string, value []byte) error { return p.read(key, value, true) })
	}
	return p
}

// inputMethods are the methods whose params can have inputResponses.
var inputMethods = []string{"tools/call", "prompts/get", "resources/read", "tasks/update"}

var errInputResponses = message.InvalidParams("the inputResponses in params are not an object")

// read reads one member of params.
func (p *params) read(key string, value []byte, tool bool) error {
	switch key {
	case "_meta":
		switch {
		case string(value) == "null":
			return nil
		case value[0] != '{':
			return errors.New("the value of _meta is not an object")
		}
		p.meta = value
		names := metaNames
		if tool {
			names = toolMetaNames
		}
		return names.each(value, tool, p.readMeta)
	case "arguments":
		if p.arguments = value; !tool {
			return p.decode(key, nil, value, &p.promptArguments)
		}
	case "inputResponses":
		p.next.InputResponses = value
	case "requestState":
		p.next.RequestState = value
	case "task":
		if value[0] == '{' {
			p.task = value
		}
	case "capabilities":
		p.sessionCapabilities = value
	case "clientInfo":
		p.sessionClient = value
	case "ref":
		return p.decode(key, refNames, value, &p.ref)
	case "argument":
		return p.decode(key, argumentNames, value, &p.argument)
	case "context":
		return p.decode(key, contextNames, value, &p.context)
	case "notifications":
		return p.decode(key, notificationsNames, value, &p.notifications)
	case "requestId":
		return p.decode(key, nil, value, &p.requestID)
	default:
		into := map[string]*string{"name": &p.name, "uri": &p.uri, "taskId": &p.taskID, "cursor": &p.cursor, "level": &p.level, "protocolVersion": &p.protocolVersion}[key]
		err := readText(key, value, into)
		*into = strings.Clone(*into) // otherwise it would keep the memory of the arguments
		return err
	}
	return nil
}

// readMeta reads one member of _meta.
func (p *params) readMeta(key string, value []byte) error {
	switch key {
	case "progressToken":
		p.progressToken = value
	case KeyMeta:
		p.hasKey = true
		return readText(key, value, &p.key)
	case mcp.MetaKeyLogLevel:
		return readText(key, value, &p.logLevel)
	case mcp.MetaKeyProtocolVersion:
		return readText(key, value, &p.version)
	case mcp.MetaKeyClientCapabilities:
		p.clientCapabilities = value
	case mcp.MetaKeyClientInfo:
		p.client = value
	}
	return nil
}

// readText reads a text, which shares the memory of value.
func readText(key string, value []byte, into *string) error {
	text, err := jsonscan.ReadString(value)
	if err != nil {
		return errors.New("the value of " + key + " " + err.Error())
	}
	*into = text
	return nil
}

// decode decodes an object whose values are bounded.
func (p *params) decode(key string, names memberNames, value []byte, into any) error {
	if p.err != nil { // there are too many
		return p.err
	}
	if names != nil && value[0] == '{' {
		if err := names.each(value, false, func(string, []byte) error { return nil }); err != nil {
			return err
		}
	}
	err := json.Unmarshal(value, into)
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) { // without the names of Go types
		return errors.New("the value of " + strings.TrimSuffix(key+"."+wrong.Field, ".") + " must not be " + wrong.Value)
	}
	return err
}

// isProgressToken reports whether a value may be a token: a string or a number.
func isProgressToken(token json.RawMessage) bool {
	return len(token) > 0 && (token[0] == '"' || token[0] == '-' || token[0] >= '0' && token[0] <= '9')
}

// relays reports whether the server's need for input goes to the client. If the client can answer
// nothing, the handlers of the facade.Client answer.
func (p *params) relays() bool {
	return len(p.next.InputResponses) > 0 || len(p.next.RequestState) > 0 || p.declared != 0 ||
		p.tasks // the questions of a task go to the client
}

// completionRef names the prompt or resource template whose argument is completed.
type completionRef struct {
	Type string `json:"type"`
	Name string `json:"name"`
	URI  string `json:"uri"`
}
